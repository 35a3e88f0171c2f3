"""Moves a namespace to other stores, and publishes the new generation to all readers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from models.errors import NotConfigured
from search.documents.moving import move
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
    if store.stores.keys() >= set(stores):
        _check_branches(resources, stores)
    move(store, namespace, stores, progress=progress)
    resources.generations.rise_beyond(namespace)
    generation = store.generation(namespace)
    publish_generation(resources, namespace, generation)
    return generation


def _check_branches(resources: Resources, stores: Sequence[str]) -> None:
    """A branch searches its own store if the namespace is there, and otherwise the first one."""
    pipeline = resources.pipeline
    for branch in pipeline.branches:
        if branch.store not in resources.written_stores:
            continue
        name = branch.store if branch.store in stores else stores[0]
        declared = pipeline.stores[name]
        if refusal := pipeline.kinds.refusal(branch.kind, declared.kind, declared.options):
            raise NotConfigured(f"the branch {branch.name!r} cannot search the store {name!r}: {refusal}")
