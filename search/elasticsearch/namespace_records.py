"""The records that outlive an index: generation and last index version of each namespace that ever existed.

They are documents of one small index, read and written by id, which Elasticsearch answers from its log at once.
`generation` rises after a batch is visible; `version` keeps index names unique; `is_there` tells whether the
namespace exists.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from models.errors import StoreUnavailable, UnknownNamespace
from search.deadline import Deadline
from search.elasticsearch.connection import Connection
from search.elasticsearch.failures import readable
from search.elasticsearch.index_layout import control_body, control_index

_LOST_RACES = 20


@dataclass(frozen=True, slots=True)
class Record:
    generation: int = 0
    version: int = 0
    is_there: bool = False


class NamespaceRecords:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._index = control_index(connection.endpoint.prefix)

    def generation(self, namespace: str, deadline: Deadline | None = None) -> int:
        """Raises UnknownNamespace."""
        record, _ = self._read(namespace, deadline)
        if not record.is_there:
            raise UnknownNamespace(namespace, f"Elasticsearch at {self._connection.address}")
        return record.generation

    def generations(self, namespaces: list[str]) -> dict[str, int]:
        if not namespaces:
            return {}
        answer = self._connection.ask(lambda client: client.mget(index=self._index, ids=namespaces))
        with readable(self._connection.address):
            return {one["_id"]: one["_source"]["generation"] for one in answer["docs"] if one.get("found")}

    def change(self, namespace: str, changed: Callable[[Record], Record]) -> Record:
        """Replace the record by `changed(record)`; with two writers no change is lost."""
        for _ in range(_LOST_RACES):
            record, seen = self._read(namespace)
            wanted = changed(record)
            if wanted == record or self._write(namespace, wanted, seen):
                return wanted
        raise StoreUnavailable(
            f"too many writers change namespace {namespace!r} at the same time: hand it in again"
        )

    def raise_generation(self, namespace: str, **also: Any) -> int:
        """`also`: other fields to change together with the generation."""
        return self.change(
            namespace, lambda record: replace(record, generation=record.generation + 1, **also)
        ).generation

    def prepare(self) -> None:
        """Create the index if it is missing."""
        if not self._connection.ask(lambda client: client.indices.exists(index=self._index)):
            # 400: another process was faster.
            self._connection.ask(
                lambda client: client.options(ignore_status=400).indices.create(
                    index=self._index, **control_body()
                )
            )

    def _read(
        self, namespace: str, deadline: Deadline | None = None
    ) -> tuple[Record, tuple[int, int] | None]:
        """The record and its position in the log; an empty record and None if there is no record."""
        answer = self._connection.ask(
            lambda client: client.options(ignore_status=404).get(index=self._index, id=namespace), deadline
        )
        with readable(self._connection.address):
            if not answer.get("found"):
                return Record(), None
            return Record(**answer["_source"]), (answer["_seq_no"], answer["_primary_term"])

    def _write(self, namespace: str, record: Record, seen: tuple[int, int] | None) -> bool:
        """False if another writer was faster."""
        place = {"op_type": "create"} if seen is None else {"if_seq_no": seen[0], "if_primary_term": seen[1]}
        answer = self._connection.ask(
            lambda client: client.options(ignore_status=409).index(
                index=self._index, id=namespace, document=asdict(record), **place
            )
        )
        return "result" in answer
