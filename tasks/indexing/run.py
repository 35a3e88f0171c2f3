"""One run of indexing a source, whoever writes: what of it is new, what is gone, and how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ingest.hashes import revision_hash
from ingest.raw_documents import RawDocument, Skipped

BATCH_DOCUMENTS = 64
BATCH_CHARACTERS = 1_000_000
"""A batch ends here too, so that a few books are not embedded and committed as one."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is; told after each unchanged document, each batch, and what the embedder did within it."""

    documents: int
    """Committed or unchanged so far."""
    passages: int
    """Embedded so far."""
    passages_per_s: float
    remaining_s: float | None
    """Time left, if the number of documents was said and some of them were new."""


@dataclass(slots=True)
class IndexReport:
    """What became of the documents of one run."""

    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    deleted: int = 0
    spared: int = 0
    """Documents that were not read again and not deleted either, since their file could not be read."""
    skipped: list[Skipped] = field(default_factory=list)
    unwritten: dict[str, str] = field(default_factory=dict)
    """Why documents are not in every store, by their ids."""
    passages: int = 0
    """Embedded in this run."""
    generation: int = 0
    """The corpus generation at the end."""
    looked_at: set[str] = field(default_factory=set)
    """Ids of what was read, whether or not it had changed, and of what was pruned."""

    @property
    def has_faults(self) -> bool:
        """Something could not be read that should have been, or not be written (exit code 8)."""
        return bool(self.unwritten) or any(skipped.is_fault for skipped in self.skipped)


def skipped_to_wire(one: Skipped) -> dict[str, Any]:
    """JSON."""
    return {"path": one.path, "line": one.line, "why": one.why, "is_fault": one.is_fault}


def skipped_from_wire(said: Mapping[str, Any]) -> Skipped:
    return Skipped(said["path"], said["why"], said["line"], is_fault=said["is_fault"])


@dataclass(slots=True)
class IndexingRun:
    """The documents of one source, compared with what was indexed of it before."""

    source: str
    known: Mapping[str, str]
    """Revision by document id of what the store had of this source, or of those of its documents that are handed in."""
    progress: Callable[[Progress], None] | None = None
    total_documents: int | None = None
    report: IndexReport = field(default_factory=IndexReport)
    _began_s: float = field(default_factory=time.monotonic)

    def batches(
        self, items: Iterable[RawDocument | Skipped], *, batch_documents: int = BATCH_DOCUMENTS
    ) -> Iterator[list[tuple[RawDocument, str]]]:
        """What is new or changed, with its revision; the rest is reported.

        Raises ValueError for a document of another source.
        """
        batch: list[tuple[RawDocument, str]] = []
        characters = 0
        for item in items:
            if isinstance(item, Skipped):
                self.report.skipped.append(item)
                continue
            if item.source != self.source:
                raise ValueError(
                    f"{item.path}: a document of the source {item.source!r}, not of {self.source!r}"
                )
            if item.document_id in self.report.looked_at:
                why = f"the id {item.document_id!r} was there before in this run; the first one is kept"
                self.report.skipped.append(Skipped(item.path, why, item.line))
                continue
            self.report.looked_at.add(item.document_id)
            revision = revision_hash(item)
            if self.known.get(item.document_id) == revision:
                self.report.unchanged += 1
                self.tell()
                continue
            batch.append((item, revision))
            characters += len(item.text)
            if len(batch) >= batch_documents or characters >= BATCH_CHARACTERS:
                yield batch
                batch, characters = [], 0
        if batch:
            yield batch

    def gone(self) -> list[str]:
        """The known documents that were not there any more; those whose file could not be read are spared."""
        spared = tuple(skipped.spares for skipped in self.report.skipped if skipped.spares is not None)
        unseen = self.known.keys() - self.report.looked_at
        gone = sorted(document_id for document_id in unseen if not document_id.startswith(spared))
        self.report.spared = len(unseen) - len(gone)
        return gone

    def tell(self, passages: int = 0) -> None:
        """Count passages that were embedded, and say how far it is."""
        self.report.passages += passages
        if self.progress is None:
            return
        took_s = max(time.monotonic() - self._began_s, 1e-9)
        written = self.report.added + self.report.replaced
        done = written + self.report.unchanged
        remaining_s = None
        if self.total_documents is not None and written:
            remaining_s = max(0, self.total_documents - done) * took_s / written
        self.progress(Progress(done, self.report.passages, self.report.passages / took_s, remaining_s))
