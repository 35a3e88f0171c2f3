"""A corpus in a namespace of its own, indexed with the settings of the installation that is measured."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from inference.embedders import load_embedder
from ingest.items import RawDocument, Skipped
from ingest.split import Splitter, passage_pieces
from models.documents import Manifest
from search.embedded.analysis import ANALYSER
from tasks.indexing import IndexReport, Progress, index_documents
from tasks.resources import Resources


def namespace_of(name: str) -> str:
    """The namespace that holds the collection `name`."""
    return f"eval-{re.sub(r'[^a-z0-9_-]+', '-', name.lower())}"[:63]


def index_corpus(
    items: Iterable[RawDocument | Skipped],
    *,
    resources: Resources,
    namespace: str,
    source: str,
    total_documents: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> IndexReport:
    """Index what is new or changed and drop what is gone; vectors of unchanged documents stay.

    The generation is the caller's to publish.  Raises what `tasks.indexing` raises.
    """
    settings = resources.settings
    # Nobody asks while this runs, so all cores work here instead of the share of one worker.
    embedder = load_embedder(
        settings.embedder,
        backend=settings.embedder_backend,
        threads=settings.model_threads,
        device=settings.embedder_device,
        max_pieces=settings.passage_pieces,
    )
    splitter = Splitter(embedder.count_pieces, max_pieces=passage_pieces(embedder.max_pieces))
    manifest = Manifest(
        splitter=splitter.name,
        language=settings.language,
        analyser=ANALYSER,
        embedder=embedder.fingerprint,
        dimension=embedder.dimension,
    )
    return index_documents(
        items,
        store=resources.writing_store,
        embedder=embedder,
        namespace=namespace,
        manifest=manifest,
        source=source,
        splitter=splitter,
        prune=True,
        progress=progress,
        total_documents=total_documents,
    )
