"""The table of documents, which is the truth of an installation with several stores, and the state of each store."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, and_, delete, func, insert, select, update

from models.batching import in_batches
from models.document_tables import (
    document_table,
    generation_table,
    mark_table,
    namespace_table,
    rebuild_table,
    state_table,
)
from models.documents import Document, Manifest, NamespaceState
from models.near_duplicate_tables import near_duplicates_metadata
from search.near_duplicate_rows import NearDuplicateRows
from search.several_stores.database import Database
from search.several_stores.document_rows import row_of, unpacked
from search.several_stores.high_water_marks import (
    FAILED,
    WRITTEN,
    advance_mark,
    documents_behind,
    is_marked,
    set_mark,
    take_mark,
)

_AT_ONCE = 500
_D, _N, _S, _G, _R = document_table.c, namespace_table.c, state_table.c, generation_table.c, rebuild_table.c
_PER_BUILD = (
    document_table,
    state_table,
    mark_table,
    rebuild_table,
    namespace_table,
    *near_duplicates_metadata.sorted_tables,
)


@dataclass(frozen=True, slots=True)
class Build:
    """One build of a namespace.  A name may have two: the current one, which is searched, and one in progress."""

    namespace_id: int
    name: str
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Change:
    """A task for a store: show this document, or delete the id if there is no document."""

    document_id: str
    sequence: int
    document: Document | None


@dataclass(frozen=True, slots=True)
class StoreResult:
    """The outcome of some changes in one store; `failures` has the reasons by document id."""

    changes: Sequence[Change]
    failures: Mapping[str, str]
    is_missing: bool = False
    """The store has no such namespace, or cannot read it."""


class DocumentTable:
    """Thread-safe.  Call writing methods inside `exclusive`."""

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
        return Build(row.namespace_id, row.name, Manifest.from_stored(row.manifest))

    def make(self, namespace: str, manifest: Manifest, *, is_current: bool = True) -> None:
        with self._database.writing(namespace) as connection:
            row = {"name": namespace, "is_current": is_current, "manifest": asdict(manifest), "sequence": 0}
            connection.execute(insert(namespace_table).values(row))

    def put(self, build: Build, documents: Sequence[Document]) -> list[Change]:
        """Commit documents, each replaced whole; returns the changes for the stores."""
        with self._database.writing(build.name) as connection:
            sequence = _next(connection, build)
            _forget(connection, document_table, build, [one.document_id for one in documents])
            if documents:
                connection.execute(
                    insert(document_table), [row_of(one, build.namespace_id, sequence) for one in documents]
                )
        return [Change(one.document_id, sequence, one) for one in documents]

    def take_out(self, build: Build, document_ids: Iterable[str]) -> list[Change]:
        """Commit the deletion of those documents that exist; returns the changes for the stores."""
        with self._database.writing(build.name) as connection:
            sequence = _next(connection, build)
            gone: list[str] = []
            for part in in_batches(sorted(set(document_ids)), _AT_ONCE):
                of_part = and_(_of(document_table, build), _D.document_id.in_(part), ~_D.is_deleted)
                gone += connection.scalars(select(_D.document_id).where(of_part))
                emptied = {"is_deleted": True, "sequence": sequence, "content": b"", "vectors": b""}
                connection.execute(update(document_table).where(of_part).values(emptied))
        return [Change(document_id, sequence, None) for document_id in gone]

    def record(
        self,
        build: Build,
        results: Mapping[str, StoreResult],
        *,
        stores: Collection[str],
        is_batch: bool = False,
    ) -> None:
        """Commit the stores' results; rows of documents that each of `stores` has deleted are removed.

        `is_batch`: these are all changes of one sequence.
        """
        with self._database.writing(build.name) as connection:
            for store, one in results.items():
                if not one.changes:
                    continue
                written = [change.document_id for change in one.changes]
                _forget(connection, state_table, build, written, _S.store == store)
                rows = [_state(build, store, change, one.failures) for change in one.changes]
                connection.execute(insert(state_table), rows)
                if one.failures:
                    since = min(change.sequence for change in one.changes)
                    take_mark(connection, build.namespace_id, store, since=since)
                elif is_batch:
                    advance_mark(connection, build.namespace_id, store, one.changes[0].sequence)
            deleted = {
                change.document_id
                for one in results.values()
                for change in one.changes
                if change.document is None
            }
            for part in in_batches(sorted(deleted), _AT_ONCE):
                _forget_deleted(connection, build, part, stores)

    def behind(self, build: Build, store: str) -> dict[str, str]:
        """The ids of documents that a store does not show correctly, with the reason if the store gave one."""
        with self._database.reading() as connection:
            return documents_behind(connection, build.namespace_id, store)

    def mark_whole(self, build: Build, store: str) -> None:
        """Note that a store shows everything, so that nobody looks through these documents again."""
        with self._database.reading() as connection:
            if is_marked(connection, build.namespace_id, store):
                return
        with self._database.writing(build.name) as connection:
            set_mark(connection, build.namespace_id, store)

    def mark_behind(self, build: Build, store: str, document_ids: Sequence[str]) -> None:
        """Have these documents written to a store again."""
        if not document_ids:
            return
        with self._database.writing(build.name) as connection:
            take_mark(connection, build.namespace_id, store)
            _forget(connection, state_table, build, document_ids, _S.store == store)

    def mark_all_behind(self, build: Build, store: str) -> None:
        with self._database.writing(build.name) as connection:
            take_mark(connection, build.namespace_id, store)
            connection.execute(delete(state_table).where(_of(state_table, build), _S.store == store))

    def changes(self, build: Build, document_ids: Sequence[str]) -> list[Change]:
        """The present task of a store for each of these ids."""
        found: list[Change] = []
        with self._database.reading() as connection:
            for part in in_batches(document_ids, _AT_ONCE):
                where = and_(_of(document_table, build), _D.document_id.in_(part))
                for row in connection.execute(select(document_table).where(where)):
                    document = None if row.is_deleted else unpacked(row)
                    found.append(Change(row.document_id, row.sequence, document))
        return found

    def ids(self, build: Build) -> list[str]:
        """The ids of all existing documents, in order."""
        asked = select(_D.document_id).where(_of(document_table, build), ~_D.is_deleted)
        with self._database.reading() as connection:
            return list(connection.scalars(asked.order_by(_D.document_id)))

    def revisions(self, build: Build, source: str | None = None) -> dict[str, str]:
        asked = _revisions(build, source)
        with self._database.reading() as connection:
            return {row.document_id: row.revision for row in connection.execute(asked)}

    def held(self, build: Build, document_ids: Iterable[str], source: str | None = None) -> dict[str, str]:
        asked = _revisions(build, source)
        found: dict[str, str] = {}
        with self._database.reading() as connection:
            for part in in_batches(document_ids, _AT_ONCE):
                rows = connection.execute(asked.where(_D.document_id.in_(part)))
                found |= {row.document_id: row.revision for row in rows}
        return found

    @contextmanager
    def near_duplicate_rows(self, build: Build) -> Iterator[NearDuplicateRows]:
        """The build's groups of near-duplicates, in one transaction."""
        with self._database.writing(build.name) as connection:
            yield NearDuplicateRows(connection, build.namespace_id)

    def sources(self, build: Build) -> list[str]:
        where = _of(document_table, build)
        with self._database.reading() as connection:
            return list(connection.scalars(select(_D.source).where(where).distinct().order_by(_D.source)))

    def passage_ids(self, build: Build) -> Iterator[tuple[str, list[str]]]:
        where = and_(_of(document_table, build), ~_D.is_deleted)
        with self._database.reading() as connection:
            rows = connection.execute(select(_D.document_id, _D.passage_ids).where(where)).all()
        return ((document_id, passage_ids) for document_id, passage_ids in rows)

    def generation(self, namespace: str) -> int:
        with self._database.reading() as connection:
            return connection.scalar(select(_G.generation).where(_G.name == namespace)) or 0

    def raise_generation(self, namespace: str, least: int) -> int:
        """Raise the generation to at least `least`; returns the present one."""
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
        """The stores that still show the previous build."""
        with self._database.reading() as connection:
            return list(connection.scalars(select(_R.store).where(_of(rebuild_table, build))))

    def rebuilt(self, build: Build, store: str) -> None:
        with self._database.writing(build.name) as connection:
            connection.execute(delete(rebuild_table).where(_of(rebuild_table, build), _R.store == store))

    def promote(self, made: Build, *, stores: Collection[str]) -> None:
        """Make `made` the current build, which each store has yet to be rebuilt with."""
        old = self.find(made.name)
        with self._database.writing(made.name) as connection:
            if old is not None:
                _drop(connection, old)
            connection.execute(
                update(namespace_table).where(_of(namespace_table, made)).values(is_current=True)
            )
            _have_rebuilt(connection, made, stores)

    def have_rebuilt(self, build: Build, stores: Collection[str]) -> None:
        """Note that these stores show another build, or the documents of another time."""
        with self._database.writing(build.name) as connection:
            _have_rebuilt(connection, build, stores)

    def drop(self, build: Build) -> None:
        with self._database.writing(build.name) as connection:
            _drop(connection, build)

    def namespaces(self) -> list[NamespaceState]:
        with self._database.reading() as connection:
            return read_namespaces(connection)


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


def _of(table: Any, build: Build) -> Any:
    return table.c.namespace_id == build.namespace_id


def _revisions(build: Build, source: str | None) -> Any:
    """The query for id and revision of existing documents, from one source or from all sources."""
    asked = select(_D.document_id, _D.revision).where(_of(document_table, build), ~_D.is_deleted)
    return asked if source is None else asked.where(_D.source == source)


def _next(connection: Connection, build: Build) -> int:
    mine = _of(namespace_table, build)
    connection.execute(update(namespace_table).where(mine).values(sequence=_N.sequence + 1))
    sequence: int = connection.execute(select(_N.sequence).where(mine)).scalar_one()
    return sequence


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


def _forget_deleted(
    connection: Connection, build: Build, document_ids: Sequence[str], stores: Collection[str]
) -> None:
    """Remove the rows of those deleted documents that every store has deleted."""
    done = select(func.count()).where(
        _S.namespace_id == _D.namespace_id,
        _S.document_id == _D.document_id,
        _S.store.in_(stores),
        _S.state == WRITTEN,
        _S.sequence == _D.sequence,
    )
    gone = select(_D.document_id).where(
        _of(document_table, build),
        _D.document_id.in_(document_ids),
        _D.is_deleted,
        done.correlate(document_table).scalar_subquery() == len(stores),
    )
    ids = list(connection.scalars(gone))
    _forget(connection, document_table, build, ids)
    _forget(connection, state_table, build, ids)


def _forget(
    connection: Connection, table: Any, build: Build, document_ids: Sequence[str], *also: Any
) -> None:
    for part in in_batches(document_ids, _AT_ONCE):
        connection.execute(delete(table).where(_of(table, build), table.c.document_id.in_(part), *also))


def _have_rebuilt(connection: Connection, build: Build, stores: Collection[str]) -> None:
    connection.execute(delete(rebuild_table).where(_of(rebuild_table, build), _R.store.in_(stores)))
    rows = [{"namespace_id": build.namespace_id, "store": store} for store in stores]
    if rows:
        connection.execute(insert(rebuild_table), rows)


def _drop(connection: Connection, build: Build) -> None:
    for table in _PER_BUILD:
        connection.execute(delete(table).where(_of(table, build)))
