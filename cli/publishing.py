"""Indexing resources whose every committed batch is announced to the readers at once."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError

from tasks.resources import Resources

if TYPE_CHECKING:
    from collections.abc import Sequence

    from models.documents import Document
    from search.protocol import Store


class PublishingResources(Resources):
    """Copies the generation to Redis after each batch; a Redis that does not answer is no reason to stop."""

    @property
    def writing_store(self) -> Store:
        store: Store = _Publishing(super().writing_store, self)  # type: ignore[assignment]
        return store


class _Publishing:
    """A store; whatever is not said here is the store's own."""

    def __init__(self, store: Store, resources: Resources) -> None:
        self._store = store
        self._resources = resources

    def upsert(self, namespace: str, documents: Sequence[Document]) -> int:
        generation = self._store.upsert(namespace, documents)
        with suppress(RedisError):
            self._resources.publish_generation(namespace, generation)
        return generation

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)
