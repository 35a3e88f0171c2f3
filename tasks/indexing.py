"""From what was read to what can be searched: the composition of ingest, an embedder and a store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from inference.protocol import Embedder
from ingest.hashes import content_hash, revision_hash
from ingest.items import RawDocument, Skipped
from ingest.near_duplicates import NearDuplicates
from ingest.split import Splitter, passage_pieces
from models.documents import Document, Manifest
from models.errors import NotEverywhere, PartlyWritten
from search.protocol import Holds

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
    """Time left, if the number of documents was said."""


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

    @property
    def has_faults(self) -> bool:
        """Something could not be read that should have been, or not be written (exit code 8)."""
        return bool(self.unwritten) or any(skipped.is_fault for skipped in self.skipped)


def index_documents(
    items: Iterable[RawDocument | Skipped],
    *,
    store: Holds,
    embedder: Embedder,
    namespace: str,
    manifest: Manifest,
    source: str,
    splitter: Splitter | None = None,
    prune: bool = False,
    batch_documents: int = 64,
    near_duplicate_threshold: float = 0.85,
    progress: Callable[[Progress], None] | None = None,
    total_documents: int | None = None,
    committed: Callable[[int], None] | None = None,
) -> IndexReport:
    """Index what `ingest.read.read_documents` yields for one source, and report.

    Unchanged documents are skipped before they are split, changed ones replaced whole.  Batches are
    committed one by one: interrupted and repeated, it goes on where it was.  With `prune` the documents of
    this source that were not there any more are deleted at the end, if the end is reached; those whose file
    could not be read are spared.

    `committed` is told the generation after each batch, when readers can see it.  `splitter` is made for the embedder
    if not given.  What was indexed before is asked for by the ids of `items` that are a sequence, such as a message;
    for others, and to prune, all of the source is read.  Raises what store and embedder raise (ManifestMismatch,
    WriterBusy, StageFailure), and ValueError for a document of another source.
    """
    store.create(namespace, manifest)
    if isinstance(items, Sequence) and not prune:
        ids = [item.document_id for item in items if isinstance(item, RawDocument)]
        known = store.held(namespace, ids, source=source)
    else:
        known = store.revisions(namespace, source)
    run = _Run(
        store=store,
        embedder=embedder,
        splitter=splitter or splitter_of(embedder),
        namespace=namespace,
        source=source,
        near_duplicates=NearDuplicates(lambda: store.notes(namespace), threshold=near_duplicate_threshold),
        progress=progress,
        total_documents=total_documents,
        known=known,
        committed=committed or (lambda generation: None),
    )
    _index_all(run, items, batch_documents)
    if prune:
        _prune(run)
    run.report.generation = store.generation(namespace)
    return run.report


def splitter_of(embedder: Embedder) -> Splitter:
    return Splitter(embedder.count_pieces, max_pieces=passage_pieces(embedder.max_pieces))


@dataclass(slots=True)
class _Run:
    """What one call of `index_documents` knows."""

    store: Holds
    embedder: Embedder
    splitter: Splitter
    namespace: str
    source: str
    near_duplicates: NearDuplicates
    progress: Callable[[Progress], None] | None
    total_documents: int | None
    known: dict[str, str]
    """Revision by document id of what the store had of this source, or of those of its documents that are handed in."""
    committed: Callable[[int], None]
    seen: set[str] = field(default_factory=set)
    report: IndexReport = field(default_factory=IndexReport)
    began: float = field(default_factory=time.monotonic)

    def tell(self, passages: int = 0) -> None:
        """Count passages that were embedded, and say how far it is."""
        self.report.passages += passages
        if self.progress is None:
            return
        took_s = max(time.monotonic() - self.began, 1e-9)
        done = self.report.added + self.report.replaced + self.report.unchanged
        remaining_s = None
        if self.total_documents is not None and done:
            remaining_s = max(0, self.total_documents - done) * took_s / done
        self.progress(Progress(done, self.report.passages, self.report.passages / took_s, remaining_s))


def _index_all(run: _Run, items: Iterable[RawDocument | Skipped], batch_documents: int) -> None:
    batch: list[tuple[RawDocument, str]] = []
    characters = 0
    for item in items:
        if isinstance(item, Skipped):
            run.report.skipped.append(item)
            continue
        if item.source != run.source:
            raise ValueError(f"{item.path}: a document of the source {item.source!r}, not of {run.source!r}")
        if item.document_id in run.seen:
            why = f"the id {item.document_id!r} was there before in this run; the first one is kept"
            run.report.skipped.append(Skipped(item.path, why, item.line))
            continue
        run.seen.add(item.document_id)
        revision = revision_hash(item)
        if run.known.get(item.document_id) == revision:
            run.report.unchanged += 1
            run.tell()
            continue
        batch.append((item, revision))
        characters += len(item.text)
        if len(batch) >= batch_documents or characters >= BATCH_CHARACTERS:
            _commit(run, batch)
            batch, characters = [], 0
    if batch:
        _commit(run, batch)


def _commit(run: _Run, batch: list[tuple[RawDocument, str]]) -> None:
    """Split, embed in one call (the embedder sorts by length), and upsert.

    What the store refuses document by document is reported, and indexed again by the next run; the rest goes on.
    """
    split = [(raw, revision, run.splitter.split(raw)) for raw, revision in batch]
    texts = [text for raw, _, passages in split for text in run.splitter.texts_for_embedding(raw, passages)]
    vectors = iter(run.embedder.embed_passages(texts, progress=run.tell))
    groups = run.near_duplicates.assign({raw.document_id: raw.text for raw, _, _ in split})
    documents = [
        Document(
            document_id=raw.document_id,
            source=raw.source,
            title=raw.title,
            passages=tuple(replace(passage, vector=next(vectors)) for passage in passages),
            metadata=raw.metadata,
            content_hash=content_hash(raw.title, raw.text),
            near_duplicate_group=groups[raw.document_id],
            revision=revision,
        )
        for raw, revision, passages in split
    ]
    failures: Mapping[str, str] = {}
    try:
        generation = run.store.upsert(run.namespace, documents)
    except NotEverywhere as error:
        run.report.unwritten |= error.failures
        generation = error.generation
    except PartlyWritten as error:
        failures, generation = error.failures, error.generation
    run.committed(generation)
    for document_id, why in failures.items():
        run.report.skipped.append(Skipped(document_id, f"not written: {why}"))
    written = [document.document_id for document in documents if document.document_id not in failures]
    replaced = sum(document_id in run.known for document_id in written)
    run.report.replaced += replaced
    run.report.added += len(written) - replaced
    run.tell()


def _prune(run: _Run) -> None:
    spared = tuple(skipped.spares for skipped in run.report.skipped if skipped.spares is not None)
    unseen = run.known.keys() - run.seen
    gone = sorted(document_id for document_id in unseen if not document_id.startswith(spared))
    run.report.spared = len(unseen) - len(gone)
    if gone:
        run.near_duplicates.forget(gone)
        try:
            run.report.deleted = run.store.delete(run.namespace, gone)
        except NotEverywhere as error:
            run.report.deleted = len(gone)
            run.report.unwritten |= error.failures
        run.committed(run.store.generation(run.namespace))
