"""From what was read to what can be searched: the composition of ingest, an embedder and a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from inference.protocol import Embedder
from ingest.hashes import content_hash
from ingest.near_duplicates import NearDuplicates
from ingest.raw_documents import RawDocument, Skipped
from ingest.split import Splitter, passage_pieces
from models.documents import Document, Manifest
from models.errors import NotEverywhere, PartlyWritten
from search.protocol import Holds
from tasks.indexing.run import BATCH_DOCUMENTS, IndexingRun, IndexReport, Progress


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
    batch_documents: int = BATCH_DOCUMENTS,
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
    run = IndexingRun(source, known, progress, total_documents)
    writer = _Writer(
        run=run,
        store=store,
        embedder=embedder,
        splitter=splitter or splitter_of(embedder),
        namespace=namespace,
        near_duplicates=NearDuplicates(lambda: store.notes(namespace), threshold=near_duplicate_threshold),
        committed=committed or (lambda generation: None),
    )
    for batch in run.batches(items, batch_documents=batch_documents):
        _commit(writer, batch)
    if prune:
        _prune(writer)
    run.report.generation = store.generation(namespace)
    return run.report


def splitter_of(embedder: Embedder) -> Splitter:
    return Splitter(embedder.count_pieces, max_pieces=passage_pieces(embedder.max_pieces))


@dataclass(frozen=True, slots=True)
class _Writer:
    """What one call of `index_documents` writes with."""

    run: IndexingRun
    store: Holds
    embedder: Embedder
    splitter: Splitter
    namespace: str
    near_duplicates: NearDuplicates
    committed: Callable[[int], None]


def _commit(writer: _Writer, batch: list[tuple[RawDocument, str]]) -> None:
    """Split, embed in one call (the embedder sorts by length), and upsert.

    What the store refuses document by document is reported, and indexed again by the next run; the rest goes on.
    """
    run = writer.run
    split = [(raw, revision, writer.splitter.split(raw)) for raw, revision in batch]
    texts = [
        text for raw, _, passages in split for text in writer.splitter.texts_for_embedding(raw, passages)
    ]
    vectors = iter(writer.embedder.embed_passages(texts, progress=run.tell))
    groups = writer.near_duplicates.assign({raw.document_id: raw.text for raw, _, _ in split})
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
        generation = writer.store.upsert(writer.namespace, documents)
    except NotEverywhere as error:
        run.report.unwritten |= error.failures
        generation = error.generation
    except PartlyWritten as error:
        failures, generation = error.failures, error.generation
    writer.committed(generation)
    for document_id, why in failures.items():
        run.report.skipped.append(Skipped(document_id, f"not written: {why}"))
    written = [document.document_id for document in documents if document.document_id not in failures]
    replaced = sum(document_id in run.known for document_id in written)
    run.report.replaced += replaced
    run.report.added += len(written) - replaced
    run.tell()


def _prune(writer: _Writer) -> None:
    report = writer.run.report
    if gone := writer.run.gone():
        report.looked_at.update(gone)
        writer.near_duplicates.forget(gone)
        try:
            report.deleted = writer.store.delete(writer.namespace, gone)
        except NotEverywhere as error:
            report.deleted = len(gone)
            report.unwritten |= error.failures
        writer.committed(writer.store.generation(writer.namespace))
