"""Indexing in batches: from documents that were read to documents that can be searched."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from chorale_client.index_tickets import NOT_WRITTEN

from inference.protocol import Embedder
from ingest.document_ids import content_hash
from ingest.near_duplicates import NearDuplicates
from ingest.raw_documents import RawDocument, Skipped
from ingest.split import Splitter, passage_pieces
from models.documents import Document, Manifest, Passage
from models.errors import NotEverywhere, PartlyWritten
from models.not_indexed import NotIndexed
from search.documents.store import DocumentStore
from tasks.indexing.indexing_run import BATCH_DOCUMENTS, IndexingRun, IndexReport, Progress, SourceDocuments


@dataclass(frozen=True, slots=True)
class IndexingTarget:
    """A namespace of a store, and how its documents are embedded."""

    store: DocumentStore
    namespace: str
    manifest: Manifest
    embedder: Embedder
    near_duplicate_threshold: float = 0.6
    committed: Callable[[int], None] = lambda generation: None
    """Called with the generation after each batch, when readers can see it."""
    split: Callable[[RawDocument], tuple[Passage, ...]] | None = None
    """Splits a document into passages; the default is the embedder's splitter."""


def index_documents(
    documents: SourceDocuments,
    target: IndexingTarget,
    *,
    batch_documents: int = BATCH_DOCUMENTS,
    progress: Callable[[Progress], None] | None = None,
) -> IndexReport:
    """Index the documents of one source, and report.

    Unchanged documents are skipped before they are split; changed ones are replaced whole.  Each batch is committed by
    itself: a run that was interrupted and is repeated goes on where it was.  Pruning comes last, and spares documents
    whose file could not be read.

    Raises what store and embedder raise (ManifestMismatch, WriterBusy, StageFailure), and ValueError for a document of
    another source.
    """
    store, namespace = target.store, target.namespace
    store.create(namespace, target.manifest)
    if documents.ids is None or documents.prune:
        known = store.revisions(namespace, documents.source)
    else:
        known = store.revisions_of(namespace, documents.ids, source=documents.source)
    run = IndexingRun(documents, known, progress)
    writer = _Writer(
        run=run,
        target=target,
        splitter=splitter_of(target.embedder),
        near_duplicates=NearDuplicates(
            lambda: store.near_duplicate_rows(namespace), threshold=target.near_duplicate_threshold
        ),
    )
    for batch in run.batches(batch_documents=batch_documents):
        writer.commit(batch)
    if documents.prune:
        writer.prune()
    elif documents.ids is None:
        run.gone()
    run.report.generation = store.generation(namespace)
    return run.report


def splitter_of(embedder: Embedder) -> Splitter:
    return Splitter(embedder.count_pieces, max_pieces=passage_pieces(embedder.max_pieces))


def embedded(
    documents: Sequence[tuple[str, Sequence[Passage]]],
    splitter: Splitter,
    embedder: Embedder,
    progress: Callable[[int], None] | None = None,
) -> list[tuple[Passage, ...]]:
    """The passages of each document with their vectors, in one call of the embedder, which sorts by length.

    `documents` are titles and passages.
    """
    texts = [text for title, passages in documents for text in splitter.texts_for_embedding(title, passages)]
    vectors = iter(embedder.embed_passages(texts, progress=progress))
    return [
        tuple(replace(passage, vector=next(vectors)) for passage in passages) for _, passages in documents
    ]


@dataclass(frozen=True, slots=True)
class _Writer:
    run: IndexingRun
    target: IndexingTarget
    splitter: Splitter
    near_duplicates: NearDuplicates

    def commit(self, batch: list[tuple[RawDocument, str]]) -> None:
        """Split, embed, and upsert.

        A document that the store refuses is reported, and the next run indexes it again; the others are written.
        """
        report, target = self.run.report, self.target
        documents = self._documents(batch)
        failures: Mapping[str, str] = {}
        try:
            generation = target.store.upsert(target.namespace, documents)
        except NotEverywhere as error:
            report.unwritten |= error.failures
            generation = error.generation
        except PartlyWritten as error:
            failures, generation = error.failures, error.generation
        target.committed(generation)
        for document_id, why in failures.items():
            report.skipped.append(Skipped(document_id, NotIndexed.NOT_WRITTEN, f"{NOT_WRITTEN}: {why}"))
        written = [document.document_id for document in documents if document.document_id not in failures]
        replaced = sum(document_id in self.run.known for document_id in written)
        report.replaced += replaced
        report.added += len(written) - replaced
        self.run.batch = (0, 0, 0)
        self.run.report_progress()

    def _documents(self, batch: list[tuple[RawDocument, str]]) -> list[Document]:
        split_document = self.target.split or self.splitter.split
        split = [(raw.title, split_document(raw)) for raw, _ in batch]
        self.run.batch = (len(batch), sum(len(passages) for _, passages in split), 0)
        self.run.report_progress()
        passages_of = embedded(split, self.splitter, self.target.embedder, self._count_passages)
        groups = self.near_duplicates.assign(
            {raw.document_id: raw.text for raw, _ in batch},
            {raw.document_id: raw.title for raw, _ in batch},
        )
        return [
            Document(
                document_id=raw.document_id,
                source=raw.source,
                title=raw.title,
                passages=passages,
                metadata=raw.metadata,
                content_hash=content_hash(raw.title, raw.text),
                near_duplicate_group=groups[raw.document_id],
                revision=revision,
            )
            for (raw, revision), passages in zip(batch, passages_of, strict=True)
        ]

    def _count_passages(self, embedded: int) -> None:
        self.run.report.passages += embedded
        documents, passages, before = self.run.batch
        self.run.batch = (documents, passages, before + embedded)
        self.run.report_progress()

    def prune(self) -> None:
        report, target = self.run.report, self.target
        if gone := self.run.gone():
            report.read_ids.update(gone)
            self.near_duplicates.forget(gone)
            try:
                report.deleted = target.store.delete(target.namespace, gone)
            except NotEverywhere as error:
                report.deleted = len(gone)
                report.unwritten |= error.failures
            report.gone = 0
            target.committed(target.store.generation(target.namespace))
