"""Reading namespaces from the table of documents."""

from __future__ import annotations

from sqlalchemy import Connection, and_, func, select

from models.document_tables import document_table, generation_table, namespace_table
from models.documents import Manifest, NamespaceState

_D, _N, _G = document_table.c, namespace_table.c, generation_table.c


def read_namespaces(connection: Connection) -> list[NamespaceState]:
    """The current builds, by name."""
    alive = and_(_D.namespace_id == _N.namespace_id, ~_D.is_deleted)
    asked = (
        select(
            namespace_table,
            func.count(_D.document_id),
            func.coalesce(func.sum(_D.passages), 0),
            func.coalesce(func.max(_G.generation), 0),
        )
        .select_from(
            namespace_table.outerjoin(document_table, alive).outerjoin(generation_table, _G.name == _N.name)
        )
        .where(_N.is_current)
        .group_by(_N.namespace_id)
        .order_by(_N.name)
    )
    # PostgreSQL groups by a primary key and returns the table's other columns.
    rows = connection.execute(asked).all()
    return [
        NamespaceState(row.name, row[-3], int(row[-2]), int(row[-1]), Manifest.from_stored(row.manifest))
        for row in rows
    ]
