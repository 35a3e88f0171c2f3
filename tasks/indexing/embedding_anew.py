"""Embeds the documents of a namespace again, with another encoder or the same, from the texts in the documents' database."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from ingest.language_fit import MEASURED_DOCUMENTS
from models.batching import in_batches
from models.documents import Document
from search.documents.store import Rebuilding
from tasks.indexing.batches import embedded, splitter_of
from tasks.indexing.indexing_run import IndexReport, Progress
from tasks.indexing.namespace_writer import encoder_of, manifest_for, publish_generation
from tasks.wiring.resources import Resources

BATCH_DOCUMENTS = 64


def embed_anew(
    resources: Resources,
    namespace: str,
    *,
    encoder: str | None = None,
    progress: Callable[[Progress], None] = lambda so_far: None,
) -> IndexReport:
    """Build the namespace again with vectors of this encoder, beside the searched one, and then replace that one.

    The passages stay as they were split; later documents are split for the new encoder.  A run that was interrupted
    goes on where it was.  Nobody else writes meanwhile.  Raises UnknownNamespace, WriterBusy, and what `encoder_of`
    and the encoder raise.
    """
    store = resources.writing_store
    build = store.known(namespace)
    chosen = encoder_of(resources, namespace, encoder, is_anew=True)
    with store.exclusive(namespace):
        current = store.revisions(namespace)
        first = sorted(current)[:MEASURED_DOCUMENTS]
        texts = [_text(document) for document in store.table.changes(build, first, 0).documents]
        manifest = manifest_for(resources, chosen.name, chosen.indexing, texts)
        inherited = {
            name: getattr(build.manifest, name) for name in ("language", "title_repeats", "local_only")
        }
        anew = Rebuilding(store, namespace, replace(manifest, **inherited))
        done = anew.revisions(namespace)
        anew.delete(namespace, done.keys() - current.keys())
        pending = [
            document_id for document_id, revision in current.items() if done.get(document_id) != revision
        ]
        report = IndexReport(unchanged=len(current) - len(pending))
        began_s, splitter = time.monotonic(), splitter_of(chosen.indexing)
        for batch_ids in in_batches(sorted(pending), BATCH_DOCUMENTS):
            documents = store.table.changes(build, batch_ids, 0).documents
            split = [(document.title, document.passages) for document in documents]
            passages_of = embedded(split, splitter, chosen.indexing)
            pairs = zip(documents, passages_of, strict=True)
            anew.upsert(namespace, [replace(document, passages=passages) for document, passages in pairs])
            report.replaced += len(documents)
            report.passages += sum(len(document.passages) for document in documents)
            spent_s = time.monotonic() - began_s
            remaining_s = spent_s * (len(pending) - report.replaced) / report.replaced
            done_documents = report.unchanged + report.replaced
            progress(Progress(done_documents, report.passages, report.passages / spent_s, remaining_s))
        with anew.near_duplicate_rows(namespace) as rows:
            rows.copy_from(build.namespace_id)
        anew.finish()
        resources.generations.rise_beyond(namespace)
        report.unwritten = store.settle(namespace)
        report.generation = store.generation(namespace)
        publish_generation(resources, namespace, report.generation)
    return report


def _text(document: Document) -> str:
    return "\n".join(passage.text for passage in document.passages)
