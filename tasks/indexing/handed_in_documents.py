"""Indexes the documents of one message: what a turn has embedded is written before the next turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ingest.raw_documents import RawDocument
from ingest.read import last_of_each, read_rows
from models.errors import UnknownNamespace
from tasks.indexing.embedding_prefetch import EmbeddingPrefetch
from tasks.indexing.indexing_run import IndexReport, SourceDocuments
from tasks.indexing.message_order import TurnOver, WriteOrder
from tasks.indexing.namespace_writer import encoder_of, index_corpus, superseded
from tasks.wiring.resources import Resources

MOST_UNFINISHED = 4
"""Maximum number of messages that a turn may interrupt within a document.  Their vectors, up to 25 MB each, stay in the
worker."""
UNFINISHED_FOR_S = 600.0
"""A message that does not come back in this time is with another worker."""


@dataclass(slots=True)
class Unfinished:
    """How much of a message is done.  `written` and `report` travel with the message to the next worker."""

    written: int = 0
    """Number of documents that are written or left out."""
    report: IndexReport = field(default_factory=IndexReport)
    ahead: EmbeddingPrefetch | None = None
    """The vectors of the next documents, as far as they are there."""
    since_s: float = field(default_factory=time.monotonic)

    def to_wire(self) -> dict[str, Any]:
        """JSON."""
        return {"written": self.written, "report": self.report.to_wire()}

    @classmethod
    def from_wire(cls, so_far: Mapping[str, Any] | None) -> Unfinished:
        """Read the form of `to_wire`.  Anything else lets the message begin at its first document; documents that are written
        already then count as unchanged."""
        unfinished = cls()
        try:
            if so_far is not None and type(so_far["written"]) is int and so_far["written"] > 0:
                unfinished.report.add(so_far["report"])
                unfinished.written = so_far["written"]
        except (LookupError, TypeError, ValueError, AttributeError):
            return cls()
        return unfinished


class UnfinishedMessages:
    """The unfinished messages that a worker has put back.  The caller keeps the mapping, which is by ticket."""

    def __init__(self, by_ticket: dict[str, Unfinished]) -> None:
        self._by_ticket = by_ticket

    def take(self, ticket: str, so_far: Mapping[str, Any] | None) -> Unfinished:
        """How much of a message is done.  `so_far` came with the message: another worker may have written more documents than
        this worker knows of."""
        travelled = Unfinished.from_wire(so_far)
        local = self._by_ticket.pop(ticket, None)
        return travelled if local is None or local.written < travelled.written else local

    def keep(self, ticket: str, unfinished: Unfinished) -> None:
        """Keep the vectors that are not written yet.  Too many messages push out the oldest one."""
        if unfinished.ahead is None:
            return
        unfinished.since_s = time.monotonic()
        self._by_ticket[ticket] = unfinished
        while len(self._by_ticket) > MOST_UNFINISHED:
            del self._by_ticket[next(iter(self._by_ticket))]

    def has_capacity(self) -> bool:
        """Whether one more message can be kept, and pushes no other out."""
        oldest_s = time.monotonic() - UNFINISHED_FOR_S
        for ticket in [ticket for ticket, message in self._by_ticket.items() if message.since_s < oldest_s]:
            del self._by_ticket[ticket]
        return len(self._by_ticket) < MOST_UNFINISHED


def index_handed_in(
    resources: Resources,
    so_far: Unfinished,
    order: WriteOrder | None,
    documents: Sequence[Any],
    *,
    namespace: str,
    source: str,
    encoder: str | None = None,
    is_over: Callable[[], bool] = lambda: False,
    has_capacity: Callable[[], bool] = lambda: True,
) -> IndexReport:
    """Index what a message brings, from where `so_far` is; it says how far this call came if an error is raised.

    `is_over` says whether other messages shall come first, `has_capacity` whether this one may be interrupted within a document.
    Raises TurnOver, and what `index_corpus` raises.
    """
    items = list(last_of_each(read_rows(documents, source=source)))
    while True:
        if order is not None and order.is_namespace_deleted():
            # The namespace is not made again for documents that are older than its deletion.
            left_out = [
                superseded(item.document_id) if isinstance(item, RawDocument) else item for item in items
            ]
            so_far.report.skipped += left_out[so_far.written :]
            return so_far.report
        if so_far.ahead is None:
            indexing = encoder_of(resources, namespace, encoder).indexing
            so_far.ahead = EmbeddingPrefetch(indexing, is_over=is_over, has_capacity=has_capacity)
        rows = SourceDocuments(items[so_far.written :], source)
        try:
            report = index_corpus(
                resources, rows, namespace=namespace, encoder=encoder, order=order, ahead=so_far.ahead
            )
        except UnknownNamespace:
            if order is None or not order.is_namespace_deleted():
                raise
            continue
        so_far.report.add(report.to_wire())
        so_far.written += len(so_far.ahead.ready)
        so_far.ahead.ready.clear()
        if not so_far.ahead.is_within:
            so_far.ahead = None
        if so_far.written >= len(items):
            return so_far.report
        if is_over():
            raise TurnOver
