"""Indexes the documents of one message in portions: each portion is embedded and written before the next one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from assembly.resources import Resources
from ingest.handed_in import last_of_each, read_rows
from ingest.raw_documents import RawDocument, Skipped
from tasks.indexing.embedding_ahead import EmbeddedAhead
from tasks.indexing.indexing_run import BATCH_CHARACTERS, SourceDocuments
from tasks.indexing.namespace_writer import index_corpus
from tasks.indexing.report import IndexReport
from tasks.indexing.turns import Turns
from tasks.indexing.write_order import WriteOrder

PORTION_CHARACTERS = 4 * BATCH_CHARACTERS
"""A larger document is a portion of its own.  Written portions are kept if the worker dies."""
MOST_UNFINISHED = 4
"""Maximum number of interrupted messages whose vectors a worker keeps.  A portion's vectors take up to 25 MB."""


@dataclass(slots=True)
class Unfinished:
    """How much of a message is done."""

    written: int = 0
    """Number of portions that are written."""
    ahead: EmbeddedAhead | None = None
    """The vectors of the next portion, as far as they are there."""
    report: IndexReport = field(default_factory=IndexReport)


def index_handed_in(
    resources: Resources,
    turns: Turns,
    order: WriteOrder | None,
    ticket: str,
    documents: Sequence[Any],
    *,
    namespace: str,
    source: str,
) -> IndexReport:
    """Index what a message brings.  Raises TurnOver if other messages shall come first: the next call goes on from there.

    Raises what `index_corpus` raises.
    """
    so_far = turns.unfinished.pop(ticket, None) or Unfinished()
    try:
        portions = list(_portions(last_of_each(read_rows(documents, source=source))))
        for number, portion in enumerate(portions[so_far.written :]):
            if number:
                turns.check(namespace)
            so_far.ahead = so_far.ahead or EmbeddedAhead(
                resources.indexing_embedder, pause=lambda: turns.check(namespace)
            )
            rows = SourceDocuments(portion, source)
            report = index_corpus(resources, rows, namespace=namespace, order=order, ahead=so_far.ahead)
            so_far.report.add(report.to_wire())
            so_far.written, so_far.ahead = so_far.written + 1, None
    except Exception:
        turns.unfinished[ticket] = so_far
        while len(turns.unfinished) > MOST_UNFINISHED:
            del turns.unfinished[next(iter(turns.unfinished))]
        raise
    return so_far.report


def _portions(items: Iterable[RawDocument | Skipped]) -> Iterator[list[RawDocument | Skipped]]:
    """At least one portion: an empty one still makes its namespace."""
    portion: list[RawDocument | Skipped] = []
    characters = 0
    for item in items:
        size = len(item.text) if isinstance(item, RawDocument) else 0
        if portion and characters + size > PORTION_CHARACTERS:
            yield portion
            portion, characters = [], 0
        portion.append(item)
        characters += size
    yield portion
