"""Indexing into an installation: its embedder, its store, its manifest, and the generation that readers are told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from redis.exceptions import RedisError
from structlog import get_logger

from ingest.near_duplicates import NearDuplicates
from ingest.raw_documents import RawDocument, Skipped
from ingest.split import passage_pieces, splitter_name
from models.documents import Manifest
from models.errors import BadIndex, NotEverywhere
from search.analysis import ANALYSER
from search.protocol import BuildsBeside, MakesRoom, Settles
from tasks.indexing.batches import index_documents
from tasks.indexing.run import IndexReport, Progress

log = get_logger("chorale.index")

if TYPE_CHECKING:
    from pathlib import Path

    from assembly.resources import Resources
    from inference.protocol import Embedder
    from search.protocol import WritingStore
    from tasks.indexing.embedding_ahead import EmbeddedAhead
    from tasks.indexing.write_order import WriteOrder


def manifest_for(resources: Resources, embedder: Embedder) -> Manifest:
    """What a namespace is built with under the present settings."""
    return Manifest(
        splitter=splitter_name(passage_pieces(embedder.max_pieces)),
        language=resources.settings.language,
        analyser=ANALYSER,
        embedder=embedder.fingerprint,
        dimension=embedder.dimension,
    )


def index_corpus(
    resources: Resources,
    items: Iterable[RawDocument | Skipped],
    *,
    namespace: str,
    source: str,
    prune: bool = False,
    rebuild: bool = False,
    progress: Callable[[Progress], None] | None = None,
    total_documents: int | None = None,
    order: WriteOrder | None = None,
    ahead: EmbeddedAhead | None = None,
) -> IndexReport:
    """Index what is new or changed in a namespace, as its one writer; readers are told after each batch.

    `rebuild` drops the namespace first; of several stores it builds a new one beside it and puts that in its place.
    What a crash or a failure kept from some store is written at the end.  What is handed in earlier than `order` says
    writes over nothing of this run; `items` that are a sequence, such as a message, go without those that a later one
    has written.  They are embedded `ahead` of the time in which the namespace is held.  Raises what
    `tasks.indexing.batches.index_documents` raises.
    """
    store = resources.writing_store
    embedder: Embedder = ahead or resources.indexing_embedder
    manifest = manifest_for(resources, embedder)
    anew = store.rebuilding(namespace, manifest) if rebuild and isinstance(store, BuildsBeside) else None
    if rebuild and anew is None:
        make_room(store)
        store.drop(namespace)

    def tell(generation: int) -> None:
        # Without a Redis, whoever starts next does it.
        with suppress(RedisError):
            resources.publish_generation(namespace, generation)

    if anew is None:
        store.create(namespace, manifest)
        # A corpus that begins anew, or was restored, goes on from the generation that readers were told last.
        resources.rise_beyond(namespace)
    if ahead is not None:
        items = list(items)
        ids = [item.document_id for item in items if isinstance(item, RawDocument)]
        ahead.take(items, store.held(namespace, ids, source=source))
    with store.exclusive(namespace):
        if order is not None and isinstance(items, Sequence):
            items = _not_overtaken(items, order)
        report = index_documents(
            items,
            store=anew or store,
            embedder=embedder,
            namespace=namespace,
            manifest=manifest,
            source=source,
            # One that was begun before may have what is not there any more.
            prune=prune or anew is not None,
            near_duplicate_threshold=resources.settings.near_duplicate_threshold,
            progress=progress,
            total_documents=total_documents,
            committed=tell,
        )
        if anew is not None:
            anew.finish()
        if order is not None:
            order.keep(report.looked_at)
        if isinstance(store, Settles):
            report.unwritten = store.settle(namespace)
            report.generation = store.generation(namespace)
        # Also where nothing changed: readers may have been told otherwise.
        tell(report.generation)
        return report


def delete_documents(
    resources: Resources, ids: Iterable[str], *, namespace: str, order: WriteOrder | None = None
) -> IndexReport:
    """Delete documents from a namespace, in every store; readers are told.  Raises BadIndex, WriterBusy.

    Those that a later message has written stay.
    """
    wanted = list(dict.fromkeys(ids))
    try:
        return _delete(resources, wanted, namespace=namespace, order=order)
    except BadIndex:
        if order is None:
            raise
        # Some older message may be about to make the namespace: it leaves these out, or has written them by now.
        overtaken = order.overtaken(wanted)
        order.keep([document_id for document_id in wanted if document_id not in overtaken])
        return _delete(resources, wanted, namespace=namespace, order=order)


def _delete(
    resources: Resources, wanted: list[str], *, namespace: str, order: WriteOrder | None
) -> IndexReport:
    store, report = resources.writing_store, IndexReport()
    with store.exclusive(namespace):
        if order is not None:
            overtaken = order.overtaken(wanted)
            report.skipped += [_overtaken(document_id) for document_id in wanted if document_id in overtaken]
            wanted = [document_id for document_id in wanted if document_id not in overtaken]
        there = store.held(namespace, wanted)
        with suppress(NotEverywhere):
            store.delete(namespace, wanted)
        if order is not None:
            order.keep(wanted)
        report.deleted = len(there)
        if isinstance(store, Settles):
            report.unwritten = store.settle(namespace)
        groups = NearDuplicates(
            lambda: store.notes(namespace), threshold=resources.settings.near_duplicate_threshold
        )
        groups.forget(wanted)
        report.generation = store.generation(namespace)
        with suppress(RedisError):
            resources.publish_generation(namespace, report.generation)
    return report


def _not_overtaken(items: Sequence[RawDocument | Skipped], order: WriteOrder) -> list[RawDocument | Skipped]:
    names = [item.document_id for item in items if isinstance(item, RawDocument)]
    overtaken = order.overtaken(names)
    return [
        _overtaken(item.document_id)
        if isinstance(item, RawDocument) and item.document_id in overtaken
        else item
        for item in items
    ]


def _overtaken(document_id: str) -> Skipped:
    return Skipped(document_id, "overtaken: what was handed in later stands", is_fault=False)


def make_room(store: WritingStore) -> Path | None:
    """Make room for a new corpus where the old one cannot be read; where that is kept."""
    kept = store.make_room() if isinstance(store, MakesRoom) else None
    if kept is not None:
        log.error("the corpus was damaged: its namespaces have to be indexed again", kept=str(kept))
    return kept
