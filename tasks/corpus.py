"""Indexing into an installation: its embedder, its store, its manifest, and the generation that readers are told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from redis.exceptions import RedisError

from inference.embedders import load_embedder
from ingest.items import RawDocument, Skipped
from ingest.near_duplicates import NearDuplicates
from ingest.split import passage_pieces, splitter_name
from models.documents import Manifest
from search.embedded.analysis import ANALYSER
from tasks.indexing import IndexReport, Progress, index_documents

if TYPE_CHECKING:
    from inference.protocol import Embedder
    from tasks.resources import Resources


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
) -> IndexReport:
    """Index what is new or changed in a namespace, as its one writer; readers are told at the end, however it comes.

    `rebuild` drops the namespace first.  Raises what `tasks.indexing.index_documents` raises.
    """
    settings, store = resources.settings, resources.writing_store
    # One run at a time works here, so the model may have all cores instead of one worker's share.
    embedder = load_embedder(
        settings.embedder,
        backend=settings.embedder_backend,
        threads=settings.model_threads,
        device=settings.embedder_device,
        max_pieces=settings.passage_pieces,
    )
    if rebuild:
        store.drop(namespace)
    with _told(resources, namespace):
        return index_documents(
            items,
            store=store,
            embedder=embedder,
            namespace=namespace,
            manifest=manifest_for(resources, embedder),
            source=source,
            prune=prune,
            near_duplicates=NearDuplicates(
                settings.corpus_dir / "near-duplicates" / f"{namespace}.json",
                threshold=settings.near_duplicate_threshold,
            ),
            progress=progress,
            total_documents=total_documents,
        )


@contextmanager
def _told(resources: Resources, namespace: str) -> Iterator[None]:
    """Copy the generation to Redis afterwards; without a Redis, whoever starts next does it."""
    try:
        yield
    finally:
        with suppress(RedisError):
            for state in resources.writing_store.namespaces():
                if state.name == namespace:
                    resources.publish_generation(namespace, state.generation)
