"""The store of a dialect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from search.deadline import Deadline
from search.engines.elasticsearch import searching
from search.engines.elasticsearch.connection import Connection, DialectCall
from search.engines.elasticsearch.dialect import Dialect
from search.engines.elasticsearch.document_writer import DocumentWriter
from search.engines.elasticsearch.failures import readable
from search.protocol import Index
from search.server_store import MissingIndex, ServerStore

_T = TypeVar("_T")


class DialectStore(DocumentWriter, ServerStore[DialectCall]):
    """Implements `search.protocol.Engine`, `Searches`, `Lists` and `ScoresText`; thread-safe.  Sends nothing before it is used.

    Searches by vectors are approximate (HNSW).
    """

    searching = searching
    _connection: Connection

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(Connection(dialect))
        self.product = dialect.product

    def has(self, index: Index) -> bool:
        self._layouts.pop(index.name, None)
        return super().has(index)

    def use(self, index: Index, work: Callable[[DialectCall], _T], deadline: Deadline) -> _T:
        try:
            with readable(self._connection.server):
                # The index was made before documents came by which their language can be measured.
                layout = replace(self._layout(index, deadline), manifest=index.manifest)
                return work(DialectCall.on(self._connection, layout, deadline))
        except MissingIndex:
            self._layouts.pop(index.name, None)
            raise
