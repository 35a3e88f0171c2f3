"""Moves a namespace to other stores; readers are told."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from models.errors import NotConfigured
from search.documents.moving import move
from search.protocol import Fuses
from tasks.indexing.namespace_writer import publish_generation
from tasks.wiring.resources import Resources


def move_namespace(
    resources: Resources,
    namespace: str,
    stores: Sequence[str],
    *,
    progress: Callable[[int], None] = lambda documents: None,
) -> int:
    """Have these stores alone serve the namespace; returns its generation.

    Raises NotConfigured also where a branch could not search the stores, and what `search.documents.moving.move` raises.
    """
    store = resources.writing_store
    for name in stores:
        if name in store.stores:
            _check_branches(resources, name)
    move(store, namespace, stores, progress=progress)
    resources.generations.rise_beyond(namespace)
    generation = store.generation(namespace)
    publish_generation(resources, namespace, generation)
    return generation


def _check_branches(resources: Resources, name: str) -> None:
    pipeline = resources.pipeline
    declared = pipeline.stores[name]
    options = pipeline.kinds.stores[declared.kind].options
    read = options(**declared.options) if isinstance(options, type) else None
    has_vectors = getattr(read, "vectors", True)
    for branch in pipeline.branches:
        kind = pipeline.kinds.branches[branch.kind]
        if branch.store not in resources.written_stores:
            continue
        if branch.kind == "hybrid" and not isinstance(resources.store(name), Fuses):
            raise NotConfigured(
                f"the branch {branch.name!r} of kind 'hybrid' cannot search the store {name!r}"
            )
        if "vectors" in kind.needs and not has_vectors:
            raise NotConfigured(
                f"the branch {branch.name!r} searches vectors, which the store {name!r} is declared without"
            )
