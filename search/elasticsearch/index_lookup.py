"""The lookup of a namespace's index and of how it was built; cached until that index is gone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from chorale_client.request import check_namespace

from models.errors import UnknownNamespace
from search.deadline import Deadline
from search.elasticsearch.connection import Connection, IndexCall
from search.elasticsearch.failures import MissingIndex, Passing, readable
from search.elasticsearch.index_layout import Namespace, alias, namespace_from

_T = TypeVar("_T")

_LOOKS = 3
"""A rebuild may remove the old index between two lookups, but not three times in a row."""


class IndexLookup:
    """Thread-safe: maps a name to an immutable Namespace."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[str, Namespace] = {}

    def using(self, name: str, timeout_s: float, use: Callable[[IndexCall], _T]) -> _T:
        """The result of `use` for a call on the namespace; repeated if the cached index is gone, or is being deleted by a rebuild.

        Elasticsearch answers 503 while it deletes an index.
        """
        deadline = self._connection.deadline(timeout_s)
        for look in range(_LOOKS):
            namespace = self._known.get(name) or self.look_up(name, deadline)
            try:
                with readable(self._connection.address):
                    return use(IndexCall(self._connection, namespace, deadline))
            except MissingIndex:
                self.forget(name)
                if look == _LOOKS - 1:
                    raise
            except Passing:
                if look == _LOOKS - 1 or self.look_up(name, deadline).index == namespace.index:
                    raise
        raise AssertionError("the last look returns or raises")

    def look_up(self, name: str, deadline: Deadline | None = None) -> Namespace:
        """The present state; raises UnknownNamespace."""
        namespace = self.find(name, deadline)
        if namespace is None:
            place = (
                f"Elasticsearch at {self._connection.address} (prefix {self._connection.endpoint.prefix!r})"
            )
            raise UnknownNamespace(name, place)
        return namespace

    def find(self, name: str, deadline: Deadline | None = None) -> Namespace | None:
        """Raises BadIndex if its index does not have our layout."""
        found = self.behind_alias(name, deadline)
        if found is None:
            return None
        index, mappings = found
        with readable(self._connection.address):
            self._known[name] = namespace_from(name, index, mappings)
        return self._known[name]

    def behind_alias(
        self, name: str, deadline: Deadline | None = None
    ) -> tuple[str, Mapping[str, Any]] | None:
        """The index, whatever its layout, and its mappings."""
        if not _can_be(name):
            return None
        place = alias(self._connection.endpoint.prefix, name)
        try:
            answer = self._connection.ask(lambda client: client.indices.get_mapping(index=place), deadline)
        except MissingIndex:
            self.forget(name)
            return None
        with readable(self._connection.address):
            ((index, of_index),) = answer.items()
            return index, of_index["mappings"]

    def without_alias(self, name: str) -> list[str]:
        """The namespace's indices that are being built or were left behind."""
        if not _can_be(name):
            return []
        beginning = f"{alias(self._connection.endpoint.prefix, name)}.v"
        answer = self._connection.ask(
            lambda client: client.indices.get(index=f"{beginning}*", features=["aliases"])
        )
        with readable(self._connection.address):
            return [
                index
                for index, told in answer.items()
                if not told["aliases"] and index.removeprefix(beginning).isdecimal()
            ]

    def forget(self, name: str) -> None:
        self._known.pop(name, None)


def _can_be(name: str) -> bool:
    """Elasticsearch would take `*` and `a,b` for several names."""
    try:
        check_namespace(name)
    except ValueError:
        return False
    return True
