"""The marks of the stores, and the documents that a store does not show correctly.

A store shows every document up to its mark, so only later documents are looked through.

All functions work inside the caller's transaction.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, and_, delete, func, insert, or_, select, update

from models.document_tables import document_table, namespace_table
from models.store_state_tables import mark_table, state_table

WRITTEN, FAILED = "written", "failed"
_D, _N, _S, _K = document_table.c, namespace_table.c, state_table.c, mark_table.c


def documents_behind(connection: Connection, namespace_id: int, store: str) -> dict[str, str]:
    """The ids of documents that a store does not show correctly, with the reason if the store gave one."""
    mark = connection.scalar(select(_K.sequence).where(_of(namespace_id, store))) or 0
    changed = (
        select(_D.document_id, func.max(func.coalesce(_D.ended, _D.sequence)).label("sequence"))
        .where(_D.namespace_id == namespace_id, or_(_D.sequence > mark, _D.ended > mark))
        .group_by(_D.document_id)
        .subquery()
    )
    mine = and_(_S.namespace_id == namespace_id, _S.document_id == changed.c.document_id, _S.store == store)
    is_behind = or_(_S.sequence.is_(None), _S.sequence != changed.c.sequence, _S.state != WRITTEN)
    asked = (
        select(changed.c.document_id, _S.reason, _S.sequence == changed.c.sequence)
        .select_from(changed.outerjoin(state_table, mine))
        .where(is_behind)
        .order_by(changed.c.document_id)
    )
    return {
        name: reason if is_of_now and reason else "not written yet"
        for name, reason, is_of_now in connection.execute(asked)
    }


def is_marked(connection: Connection, namespace_id: int, store: str) -> bool:
    """Whether the store's mark is the namespace's latest sequence."""
    latest = select(_N.sequence).where(_N.namespace_id == namespace_id).scalar_subquery()
    asked = select(_K.sequence).where(_of(namespace_id, store), _K.sequence == latest)
    return connection.scalar(asked) is not None


def set_mark(connection: Connection, namespace_id: int, store: str) -> None:
    """Set the mark of a store that shows everything to the latest sequence."""
    connection.execute(delete(mark_table).where(_of(namespace_id, store)))
    latest = connection.execute(select(_N.sequence).where(_N.namespace_id == namespace_id)).scalar_one()
    connection.execute(insert(mark_table).values(namespace_id=namespace_id, store=store, sequence=latest))


def advance_mark(connection: Connection, namespace_id: int, store: str, sequence: int) -> None:
    """Advance the mark of a store that shows this whole batch and everything before it."""
    before = and_(_of(namespace_id, store), _K.sequence == sequence - 1)
    connection.execute(update(mark_table).where(before).values(sequence=sequence))


def take_mark(connection: Connection, namespace_id: int, store: str, *, since: int = 0) -> None:
    """Remove the mark of a store that lacks something of a sequence >= `since`."""
    connection.execute(delete(mark_table).where(_of(namespace_id, store), _K.sequence >= since))


def _of(namespace_id: int, store: str) -> Any:
    return and_(_K.namespace_id == namespace_id, _K.store == store)
