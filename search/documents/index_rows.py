"""The rows that say which indexes the stores have, how far each has come, and what it refused.

All functions work inside the caller's transaction.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, and_, delete, insert, select, update

from models.batching import in_batches
from models.documents import Manifest
from models.tables.documents import index_table, namespace_table, refused_table
from search.protocol import Index

AT_ONCE = 500

_I, _N, _R = index_table.c, namespace_table.c, refused_table.c


@dataclass(frozen=True, slots=True)
class IndexRow:
    store: str
    index: Index
    sequence: int
    """The last batch that the index contains."""
    is_visible: bool
    """False while the index is being built."""


def index_rows(connection: Connection, names: Sequence[str]) -> list[IndexRow]:
    """The indexes of these builds, the newest first."""
    statement = select(index_table, _N.name.label("build"), _N.manifest)
    joined = statement.join(namespace_table, _N.namespace_id == _I.namespace_id)
    return [
        IndexRow(
            row.store,
            Index(row.build.split(".")[0], row.namespace_id, row.name, Manifest.from_stored(row.manifest)),
            row.sequence,
            row.is_shown,
        )
        for row in connection.execute(joined.where(_N.name.in_(names)).order_by(_I.name.desc()))
    ]


def add_index(connection: Connection, store: str, build: Any, *, sequence: int, is_visible: bool) -> IndexRow:
    """Note an index that is about to be made; its name was never used before."""
    index = Index(build.name, build.namespace_id, f"{build.name}.v{time.time_ns()}", build.manifest)
    row = {"namespace_id": build.namespace_id, "store": store, "name": index.name}
    connection.execute(insert(index_table).values(row | {"sequence": sequence, "is_shown": is_visible}))
    return IndexRow(store, index, sequence, is_visible)


def set_index(connection: Connection, row: IndexRow, **values: Any) -> None:
    connection.execute(update(index_table).where(_is_index(row)).values(values))


def delete_index(connection: Connection, row: IndexRow) -> None:
    connection.execute(delete(index_table).where(_is_index(row)))


def refused(connection: Connection, namespace_id: int, store: str, after: str) -> dict[str, str]:
    """The reasons by document id, of the next documents after an id."""
    mine = and_(_R.namespace_id == namespace_id, _R.store == store, _R.document_id > after)
    statement = select(_R.document_id, _R.reason).where(mine).order_by(_R.document_id).limit(AT_ONCE)
    return {row.document_id: row.reason for row in connection.execute(statement)}


def refused_of(
    connection: Connection, namespace_id: int, store: str, document_ids: Iterable[str]
) -> dict[str, str]:
    reasons: dict[str, str] = {}
    for part in in_batches(document_ids, AT_ONCE):
        mine = and_(_R.namespace_id == namespace_id, _R.store == store, _R.document_id.in_(part))
        rows = connection.execute(select(_R.document_id, _R.reason).where(mine))
        reasons |= {row.document_id: row.reason for row in rows}
    return reasons


def set_refused(
    connection: Connection,
    namespace_id: int,
    store: str,
    document_ids: Iterable[str],
    reasons: Mapping[str, str],
) -> None:
    """Note which of these documents a store has refused; it has written the others."""
    for part in in_batches(document_ids, AT_ONCE):
        mine = and_(_R.namespace_id == namespace_id, _R.store == store, _R.document_id.in_(part))
        connection.execute(delete(refused_table).where(mine))
    rows = [
        {
            "namespace_id": namespace_id,
            "store": store,
            "document_id": document_id,
            "reason": reason.replace("\0", "")[:1_000],
        }
        for document_id, reason in reasons.items()
    ]
    if rows:
        connection.execute(insert(refused_table), rows)


def _is_index(row: IndexRow) -> Any:
    index = row.index
    return and_(_I.namespace_id == index.namespace_id, _I.store == row.store, _I.name == index.name)
