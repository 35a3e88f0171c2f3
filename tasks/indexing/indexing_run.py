"""One run of indexing a source, whoever writes: which documents are new, which are gone, how far it is, and its report."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any

from ingest.document_ids import revision_hash
from ingest.raw_documents import RawDocument, Skipped
from models.not_indexed import NotIndexed

_COUNTS = ("added", "replaced", "unchanged", "deleted", "passages")


@dataclass(slots=True)
class IndexReport:
    """The results for the documents of one run, or of one message."""

    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    deleted: int = 0
    spared: int = 0
    """Known documents that were neither read nor deleted, since their file could not be read."""
    gone: int = 0
    """Documents of earlier runs that are not in the source any more, and were not deleted."""
    skipped: list[Skipped] = field(default_factory=list)
    unwritten: dict[str, str] = field(default_factory=dict)
    """Why documents are not in every store, by document id."""
    passages: int = 0
    """Embedded in this run."""
    generation: int = 0
    """The corpus generation at the end."""
    read_ids: set[str] = field(default_factory=set)
    """Ids of the documents that were read, changed or not, and of those that were pruned."""

    @property
    def has_faults(self) -> bool:
        """Whether documents could not be read or written that should have been (exit code 8)."""
        return bool(self.unwritten) or any(skipped.is_fault for skipped in self.skipped)

    @property
    def reasons(self) -> dict[str, int]:
        """How much was left out, by reason."""
        counts = Counter(skipped.reason for skipped in self.skipped)
        return {reason.value: counts[reason] for reason in NotIndexed if counts[reason]}

    def to_wire(self) -> dict[str, Any]:
        """JSON: the outcome of a message."""
        return {
            "generation": self.generation,
            **{name: getattr(self, name) for name in _COUNTS},
            "skipped": [str(skipped) for skipped in self.skipped],
            "reasons": self.reasons,
            "left_out": [skipped_to_wire(skipped) for skipped in self.skipped],
            "unwritten": self.unwritten,
        }

    def add(self, outcome: Mapping[str, Any]) -> None:
        """Add the outcome of one message, as `to_wire` gave it.  Its passages are counted as well."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + outcome[name])
        self.skipped += [
            Skipped(item["path"], NotIndexed(item["reason"]), item["why"], item["line"])
            for item in outcome["left_out"]
        ]
        self.unwritten |= outcome["unwritten"]
        self.generation = max(self.generation, outcome["generation"])


def skipped_to_wire(skipped: Skipped) -> dict[str, Any]:
    """JSON."""
    return {name: getattr(skipped, name) for name in ("path", "line", "reason", "why", "is_fault")}


BATCH_DOCUMENTS = 64
BATCH_CHARACTERS = 1_000_000
"""A batch ends here too, so that a few books are not embedded and committed as one."""


@dataclass(frozen=True, slots=True)
class SourceDocuments:
    """The documents of one source that are to be indexed."""

    items: Iterable[RawDocument | Skipped]
    """A sequence if all documents are known beforehand, as in a message."""
    source: str
    prune: bool = False
    """Whether `items` are the whole source: its other documents are deleted at the end of the run."""
    total: int | None = None
    """Approximate number of documents, to estimate the remaining time."""

    @property
    def ids(self) -> list[str] | None:
        """The document ids, if they are known beforehand."""
        if not isinstance(self.items, Sequence):
            return None
        return [item.document_id for item in self.items if isinstance(item, RawDocument)]

    def with_first(self, count: int) -> tuple[SourceDocuments, list[RawDocument]]:
        """These documents, and the first ones, which are read now."""
        if isinstance(self.items, Sequence):
            first, whole = self.items[:count], self
        else:
            items = iter(self.items)
            first = list(islice(items, count))
            whole = replace(self, items=chain(first, items))
        return whole, [item for item in first if isinstance(item, RawDocument)]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is; reported after each unchanged document, each batch, and what the embedder did within it."""

    documents: int
    """Committed or unchanged so far."""
    passages: int
    """Embedded so far."""
    passages_per_s: float
    remaining_s: float | None
    """None if the number of documents is not known, or if nothing new has been embedded yet."""
    batch: tuple[int, int] = (0, 0)
    """Passages of the batch that is being embedded: done, and all."""
    in_work: float = 0.0
    """Documents of this batch × share of its passages that are embedded."""


@dataclass(slots=True)
class IndexingRun:
    """The documents of one source, compared with what was indexed of it before."""

    documents: SourceDocuments
    known: Mapping[str, str]
    """The store's revisions by document id: for the whole source, or for the ids that are handed in."""
    progress: Callable[[Progress], None] | None = None
    report: IndexReport = field(default_factory=IndexReport)
    batch: tuple[int, int, int] = (0, 0, 0)
    """Of the batch that is being embedded: documents, passages, and passages that are embedded."""
    _began_s: float = field(default_factory=time.monotonic)

    def batches(self, *, batch_documents: int = BATCH_DOCUMENTS) -> Iterator[list[tuple[RawDocument, str]]]:
        """New and changed documents with their revisions; the others are reported.

        Raises ValueError for a document of another source.
        """
        batch: list[tuple[RawDocument, str]] = []
        characters = 0
        for item in self.documents.items:
            if isinstance(item, Skipped):
                self.report.skipped.append(item)
                continue
            if item.source != self.documents.source:
                raise ValueError(
                    f"{item.path}: a document of the source {item.source!r}, not of {self.documents.source!r}"
                )
            if item.document_id in self.report.read_ids:
                why = f"the id {item.document_id!r} was there before in this run; the first one is kept"
                self.report.skipped.append(Skipped(item.path, NotIndexed.REPEATED_ID, why, item.line))
                continue
            self.report.read_ids.add(item.document_id)
            revision = revision_hash(item)
            if self.known.get(item.document_id) == revision:
                self.report.unchanged += 1
                self.report_progress()
                continue
            batch.append((item, revision))
            characters += len(item.text)
            if len(batch) >= batch_documents or characters >= BATCH_CHARACTERS:
                yield batch
                batch, characters = [], 0
        if batch:
            yield batch

    def gone(self) -> list[str]:
        """The known documents that the source no longer has.  Those whose file could not be read are spared, and all if nothing was read:
        a folder that is not mounted looks like an empty one."""
        spared = tuple(skipped.spares for skipped in self.report.skipped if skipped.spares is not None)
        unseen = self.known.keys() - self.report.read_ids
        gone = sorted(name for name in unseen if not name.startswith(spared)) if self.report.read_ids else []
        self.report.spared, self.report.gone = len(unseen) - len(gone), len(gone)
        return gone

    def report_progress(self) -> None:
        """Call `progress`."""
        if self.progress is None:
            return
        took_s = max(time.monotonic() - self._began_s, 1e-9)
        written = self.report.added + self.report.replaced
        done = written + self.report.unchanged
        documents, passages, embedded = self.batch
        in_work = documents * embedded / passages if passages else 0.0
        remaining_s = None
        if self.documents.total is not None and (new := written + in_work):
            remaining_s = max(0, self.documents.total - done - in_work) * took_s / new
        rate = self.report.passages / took_s
        batch = (embedded, passages)
        self.progress(Progress(done, self.report.passages, rate, remaining_s, batch, in_work))
