"""The table of documents: the truth of a clustered installation, and what each store has of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, fields
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, func, insert, or_, select, update

from models.document_tables import (
    document_table,
    generation_table,
    namespace_table,
    rebuild_table,
    state_table,
)
from models.documents import Document, Manifest, NamespaceState
from search.clustered.content import packed, unpacked
from search.clustered.database import Database

WRITTEN, FAILED = "written", "failed"
_AT_ONCE = 500
_MANIFEST_FIELDS = frozenset(field.name for field in fields(Manifest))
_D, _N, _S, _G, _R = document_table.c, namespace_table.c, state_table.c, generation_table.c, rebuild_table.c
_PER_BUILD = (document_table, state_table, rebuild_table, namespace_table)


@dataclass(frozen=True, slots=True)
class Build:
    """A namespace as the table has it; of one name there may be one that is searched and one in the making."""

    namespace_id: int
    name: str
    manifest: Manifest
    is_current: bool


@dataclass(frozen=True, slots=True)
class Change:
    """What a store is to do: show this document, or none of the id."""

    document_id: str
    sequence: int
    document: Document | None


@dataclass(frozen=True, slots=True)
class Told:
    """What a store made of some changes; `failures` has the reasons by document id."""

    changes: Sequence[Change]
    failures: Mapping[str, str]
    is_missing: bool = False
    """The store has no such namespace, or cannot read it."""


class DocumentTable:
    """Thread-safe.  What writes is called within `exclusive`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def exclusive(self, namespace: str) -> AbstractContextManager[None]:
        return self._database.exclusive(namespace)

    def close(self) -> None:
        self._database.close()

    def find(self, namespace: str, *, is_current: bool = True) -> Build | None:
        where = and_(_N.name == namespace, _N.is_current == is_current)
        with self._database.reading() as connection:
            row = connection.execute(select(namespace_table).where(where)).one_or_none()
        if row is None:
            return None
        told = {name: value for name, value in row.manifest.items() if name in _MANIFEST_FIELDS}
        return Build(row.namespace_id, row.name, Manifest(**told), row.is_current)

    def make(self, namespace: str, manifest: Manifest, *, is_current: bool = True) -> None:
        with self._database.writing(namespace) as connection:
            row = {"name": namespace, "is_current": is_current, "manifest": asdict(manifest), "sequence": 0}
            connection.execute(insert(namespace_table).values(row))

    def put(self, build: Build, documents: Sequence[Document]) -> list[Change]:
        """Commit documents, each replaced whole; what the stores are to do now."""
        with self._database.writing(build.name) as connection:
            sequence = _next(connection, build)
            _forget(connection, document_table, build, [one.document_id for one in documents])
            if documents:
                connection.execute(insert(document_table), [_row(build, sequence, one) for one in documents])
        return [Change(one.document_id, sequence, one) for one in documents]

    def take_out(self, build: Build, document_ids: Iterable[str]) -> list[Change]:
        """Commit deletions of those that are there."""
        with self._database.writing(build.name) as connection:
            sequence = _next(connection, build)
            gone: list[str] = []
            for part in _parts(sorted(set(document_ids))):
                of_part = and_(_of(document_table, build), _D.document_id.in_(part), ~_D.is_deleted)
                gone += connection.scalars(select(_D.document_id).where(of_part))
                emptied = {"is_deleted": True, "sequence": sequence, "content": b"", "vectors": b""}
                connection.execute(update(document_table).where(of_part).values(emptied))
        return [Change(document_id, sequence, None) for document_id in gone]

    def record(self, build: Build, told: Mapping[str, Told], *, stores: Collection[str]) -> None:
        """Commit what stores made of changes; a document that each of `stores` has deleted is gone."""
        with self._database.writing(build.name) as connection:
            for store, one in told.items():
                of_store = and_(
                    _of(state_table, build),
                    _S.store == store,
                    _S.document_id == bindparam("which"),
                )
                if not one.changes:
                    continue
                connection.execute(
                    delete(state_table).where(of_store),
                    [{"which": change.document_id} for change in one.changes],
                )
                rows = [_state(build, store, change, one.failures) for change in one.changes]
                connection.execute(insert(state_table), rows)
            deleted = {
                change.document_id
                for one in told.values()
                for change in one.changes
                if change.document is None
            }
            for part in _parts(sorted(deleted)):
                shown = select(_S.document_id).where(
                    _S.namespace_id == _D.namespace_id,
                    _S.document_id == _D.document_id,
                    _S.store.in_(stores),
                    _S.state == WRITTEN,
                    _S.sequence == _D.sequence,
                )
                counted = shown.with_only_columns(func.count()).correlate(document_table).scalar_subquery()
                gone = select(_D.document_id).where(
                    _of(document_table, build),
                    _D.document_id.in_(part),
                    _D.is_deleted,
                    counted == len(stores),
                )
                ids = list(connection.scalars(gone))
                _forget(connection, document_table, build, ids)
                _forget(connection, state_table, build, ids)

    def behind(self, build: Build, store: str) -> dict[str, str]:
        """The ids of what a store does not show as it is, and why, where it said so."""
        mine = and_(_S.namespace_id == _D.namespace_id, _S.document_id == _D.document_id, _S.store == store)
        is_behind = or_(_S.sequence.is_(None), _S.sequence != _D.sequence, _S.state != WRITTEN)
        asked = (
            select(_D.document_id, _S.reason, _S.sequence == _D.sequence)
            .select_from(document_table.outerjoin(state_table, mine))
            .where(_of(document_table, build), is_behind)
            .order_by(_D.document_id)
        )
        with self._database.reading() as connection:
            rows = connection.execute(asked).all()
        return {
            name: reason if is_of_now and reason else "not written yet" for name, reason, is_of_now in rows
        }

    def mark_behind(self, build: Build, store: str, document_ids: Sequence[str]) -> None:
        """Let a store be written again with these."""
        with self._database.writing(build.name) as connection:
            for part in _parts(document_ids):
                where = and_(_of(state_table, build), _S.store == store, _S.document_id.in_(part))
                connection.execute(delete(state_table).where(where))

    def mark_all_behind(self, build: Build, store: str) -> None:
        """Let a store be written again with everything."""
        with self._database.writing(build.name) as connection:
            connection.execute(delete(state_table).where(_of(state_table, build), _S.store == store))

    def changes(self, build: Build, document_ids: Sequence[str]) -> list[Change]:
        """What a store is to do for these ids."""
        found: list[Change] = []
        with self._database.reading() as connection:
            for part in _parts(document_ids):
                where = and_(_of(document_table, build), _D.document_id.in_(part))
                for row in connection.execute(select(document_table).where(where)):
                    document = None if row.is_deleted else unpacked(row)
                    found.append(Change(row.document_id, row.sequence, document))
        return found

    def ids(self, build: Build) -> list[str]:
        """Of the documents that are there, in order."""
        asked = select(_D.document_id).where(_of(document_table, build), ~_D.is_deleted)
        with self._database.reading() as connection:
            return list(connection.scalars(asked.order_by(_D.document_id)))

    def revisions(self, build: Build, source: str) -> dict[str, str]:
        where = and_(_of(document_table, build), _D.source == source, ~_D.is_deleted)
        with self._database.reading() as connection:
            rows = connection.execute(select(_D.document_id, _D.revision).where(where)).all()
        return {row.document_id: row.revision for row in rows}

    def sources(self, build: Build) -> list[str]:
        where = _of(document_table, build)
        with self._database.reading() as connection:
            return list(connection.scalars(select(_D.source).where(where).distinct().order_by(_D.source)))

    def passage_ids(self, build: Build) -> Iterator[tuple[str, list[str]]]:
        """Those of each document that is there."""
        where = and_(_of(document_table, build), ~_D.is_deleted)
        with self._database.reading() as connection:
            rows = connection.execute(select(_D.document_id, _D.passage_ids).where(where)).all()
        return ((document_id, passage_ids) for document_id, passage_ids in rows)

    def generation(self, namespace: str) -> int:
        with self._database.reading() as connection:
            return connection.scalar(select(_G.generation).where(_G.name == namespace)) or 0

    def raise_generation(self, namespace: str, least: int) -> int:
        """To `least`, unless it is above it; what it is now."""
        with self._database.writing(namespace) as connection:
            found = connection.scalar(select(_G.generation).where(_G.name == namespace))
            if found is None:
                connection.execute(insert(generation_table).values(name=namespace, generation=least))
            elif found < least:
                connection.execute(
                    update(generation_table).where(_G.name == namespace).values(generation=least)
                )
            return max(least, found or 0)

    def to_rebuild(self, build: Build) -> list[str]:
        """The stores that still show what the namespace was before."""
        with self._database.reading() as connection:
            return list(connection.scalars(select(_R.store).where(_of(rebuild_table, build))))

    def rebuilt(self, build: Build, store: str) -> None:
        with self._database.writing(build.name) as connection:
            connection.execute(delete(rebuild_table).where(_of(rebuild_table, build), _R.store == store))

    def promote(self, made: Build, *, stores: Iterable[str]) -> None:
        """Let `made` be the namespace; each store is to be built anew."""
        old = self.find(made.name)
        with self._database.writing(made.name) as connection:
            if old is not None:
                _drop(connection, old)
            connection.execute(
                update(namespace_table).where(_of(namespace_table, made)).values(is_current=True)
            )
            connection.execute(
                insert(rebuild_table),
                [{"namespace_id": made.namespace_id, "store": store} for store in stores],
            )

    def drop(self, build: Build) -> None:
        with self._database.writing(build.name) as connection:
            _drop(connection, build)

    def namespaces(self) -> list[NamespaceState]:
        with self._database.reading() as connection:
            return read_namespaces(connection)


def read_namespaces(connection: Connection) -> list[NamespaceState]:
    """Those that are searched, by name."""
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
    # PostgreSQL groups by a primary key and gives the other columns of its table.
    rows = connection.execute(asked).all()
    return [
        NamespaceState(
            row.name,
            row[-3],
            int(row[-2]),
            int(row[-1]),
            Manifest(**{name: value for name, value in row.manifest.items() if name in _MANIFEST_FIELDS}),
        )
        for row in rows
    ]


def _of(table: Any, build: Build) -> Any:
    return table.c.namespace_id == build.namespace_id


def _next(connection: Connection, build: Build) -> int:
    mine = _of(namespace_table, build)
    connection.execute(update(namespace_table).where(mine).values(sequence=_N.sequence + 1))
    sequence: int = connection.execute(select(_N.sequence).where(mine)).scalar_one()
    return sequence


def _row(build: Build, sequence: int, document: Document) -> dict[str, Any]:
    content, vectors = packed(document)
    return {
        "namespace_id": build.namespace_id,
        "document_id": document.document_id,
        "sequence": sequence,
        "is_deleted": False,
        "source": document.source,
        "revision": document.revision,
        "content_hash": document.content_hash,
        "near_duplicate_group": document.near_duplicate_group,
        "passage_ids": [passage.passage_id for passage in document.passages],
        "passages": len(document.passages),
        "content": content,
        "vectors": vectors,
    }


def _state(build: Build, store: str, change: Change, failures: Mapping[str, str]) -> dict[str, Any]:
    why = failures.get(change.document_id)
    return {
        "namespace_id": build.namespace_id,
        "store": store,
        "document_id": change.document_id,
        "state": WRITTEN if why is None else FAILED,
        "reason": "" if why is None else why.replace("\0", "")[:1_000],
        "sequence": change.sequence,
    }


def _forget(connection: Connection, table: Any, build: Build, document_ids: Sequence[str]) -> None:
    for part in _parts(document_ids):
        connection.execute(delete(table).where(_of(table, build), table.c.document_id.in_(part)))


def _drop(connection: Connection, build: Build) -> None:
    for table in _PER_BUILD:
        connection.execute(delete(table).where(_of(table, build)))


def _parts(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(names), _AT_ONCE):
        yield names[first : first + _AT_ONCE]
