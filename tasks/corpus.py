"""Indexing into an installation: its embedder, its store, its manifest, and the generation that readers are told."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
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
    from pathlib import Path

    from config.settings import Settings
    from inference.protocol import Embedder
    from search.protocol import Store
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
    """Index what is new or changed in a namespace, as its one writer; readers are told after each batch.

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
        precision=settings.embedder_document_precision,
    )
    manifest = manifest_for(resources, embedder)
    if rebuild:
        store.drop(namespace)

    def tell(generation: int) -> None:
        # Without a Redis, whoever starts next does it.
        with suppress(RedisError):
            resources.publish_generation(namespace, generation)

    store.create(namespace, manifest)
    with alone(store, namespace):
        return index_documents(
            items,
            store=store,
            embedder=embedder,
            namespace=namespace,
            manifest=manifest,
            source=source,
            prune=prune,
            near_duplicates=near_duplicates(settings, namespace),
            progress=progress,
            total_documents=total_documents,
            committed=tell,
        )


def near_duplicates_file(settings: Settings, namespace: str) -> Path:
    return settings.corpus_dir / "near-duplicates" / f"{namespace}.json"


def near_duplicates(settings: Settings, namespace: str) -> NearDuplicates:
    """What is known of the namespace's near-duplicates."""
    file = near_duplicates_file(settings, namespace)
    return NearDuplicates(file, threshold=settings.near_duplicate_threshold)


def alone(store: Store, namespace: str) -> AbstractContextManager[None]:
    """Hold a namespace that exists for several writes; raises WriterBusy where another process writes it.

    A store of servers has no such lock, nor need of one: its server puts writes in order.
    """
    exclusive: Callable[[str], AbstractContextManager[None]] | None = getattr(store, "exclusive", None)
    return nullcontext() if exclusive is None else exclusive(namespace)
