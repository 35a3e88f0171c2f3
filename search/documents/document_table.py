"""The table of documents, which is the truth of an installation with several stores, and the state of each store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection, Table, and_, delete, func, insert, select, text, update

from models.batching import in_batches
from models.document_tables import document_table, generation_table, namespace_table, passage_table
from models.documents import Document, Manifest, NamespaceState, Passage
from models.near_duplicate_tables import near_duplicates_metadata
from models.store_state_tables import mark_table, rebuild_table, state_table
from search.documents import lookups
from search.documents.database import Database, Plain
from search.documents.document_rows import end_documents, insert_documents
from search.documents.high_water_marks import (
    FAILED,
    WRITTEN,
    advance_mark,
    documents_behind,
    is_marked,
    set_mark,
    take_mark,
)
from search.near_duplicate_rows import NearDuplicateRows
from search.protocol import Entry

CURRENT, NEXT, OLD = "", ".next", ".old"
"""What follows the name of a namespace: of the build that is written, of a rebuild in progress, and of the build that
some stores still show.  No name has a dot."""

_AT_ONCE = 500
_D, _P, _N = document_table.c, passage_table.c, namespace_table.c
_S, _G, _R = state_table.c, generation_table.c, rebuild_table.c
_PER_BUILD = (
    passage_table,
    document_table,
    state_table,
    mark_table,
    rebuild_table,
    namespace_table,
    *near_duplicates_metadata.sorted_tables,
)


@dataclass(frozen=True, slots=True)
class Build:
    """One build of a namespace."""

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

    def find(self, namespace: str, which: str = CURRENT) -> Build | None:
        asked = select(namespace_table).where(_N.name == namespace + which)
        with self._database.reading() as connection:
            row = connection.execute(asked).one_or_none()
        if row is None:
            return None
        return Build(row.namespace_id, namespace, Manifest.from_stored(row.manifest))

    def make(self, namespace: str, manifest: Manifest, which: str = CURRENT) -> None:
        row = {"name": namespace + which, "manifest": asdict(manifest), "sequence": 0, "visible": 0}
        with self._database.writing(namespace) as connection:
            connection.execute(insert(namespace_table).values(row | {"lexical": ""}))

    def put(self, build: Build, documents: Sequence[Document]) -> list[Change]:
        """Commit documents, each replaced whole; returns the changes for the stores."""
        with self._database.writing(build.name) as connection:
            sequence = _next(connection, build)
            ids = [document.document_id for document in documents]
            end_documents(connection, build.namespace_id, sequence, ids)
            insert_documents(connection, build.namespace_id, sequence, documents)
        return [Change(one.document_id, sequence, one) for one in documents]

    def take_out(self, build: Build, document_ids: Iterable[str]) -> list[Change]:
        """Commit the deletion of those documents that exist; returns the changes for the stores."""
        with self._database.writing(build.name) as connection:
            there = lookups.held(Plain(connection), build.namespace_id, sorted(set(document_ids)), None)
            sequence = _next(connection, build) if there else 0
            end_documents(connection, build.namespace_id, sequence, list(there))
        return [Change(document_id, sequence, None) for document_id in there]

    def record(
        self,
        build: Build,
        results: Mapping[str, StoreResult],
        *,
        stores: Collection[str],
        is_batch: bool = False,
    ) -> None:
        """Commit the stores' results; rows that each of `stores` has replaced or deleted are removed.

        `is_batch`: these are all changes of one sequence.
        """
        with self._database.writing(build.name) as connection:
            for store, one in results.items():
                if not one.changes:
                    continue
                ids = [change.document_id for change in one.changes]
                _forget(connection, state_table, build, ids, _S.store == store)
                rows = [_state(build, store, change, one.failures) for change in one.changes]
                connection.execute(insert(state_table), rows)
                if one.failures:
                    since = min(change.sequence for change in one.changes)
                    take_mark(connection, build.namespace_id, store, since=since)
                elif is_batch:
                    advance_mark(connection, build.namespace_id, store, one.changes[0].sequence)
            written = {change.document_id for one in results.values() for change in one.changes}
            for part in in_batches(sorted(written), _AT_ONCE):
                _prune(connection, build, part, stores)

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
                latest = func.max(func.coalesce(_D.ended, _D.sequence))
                where = and_(_of(document_table, build), _D.document_id.in_(part))
                asked = select(_D.document_id, latest).where(where).group_by(_D.document_id)
                documents = _documents(connection, build, part)
                rows = connection.execute(asked)
                found += [Change(name, sequence, documents.get(name)) for name, sequence in rows]
        return found

    def ids(self, build: Build) -> list[str]:
        """The ids of all existing documents, in order."""
        return sorted(self.revisions(build))

    def revisions(self, build: Build, source: str | None = None) -> dict[str, str]:
        with self._database.reading() as connection:
            return lookups.revisions(Plain(connection), build.namespace_id, source)

    def held(self, build: Build, document_ids: Iterable[str], source: str | None = None) -> dict[str, str]:
        with self._database.reading() as connection:
            return lookups.held(Plain(connection), build.namespace_id, list(document_ids), source)

    def entries(self, build: Build) -> Iterator[Entry]:
        """Every passage of every document; a document without any has one entry."""
        with self._database.reading() as connection:
            yield from lookups.entries(Plain(connection), build.namespace_id)

    @contextmanager
    def near_duplicate_rows(self, build: Build) -> Iterator[NearDuplicateRows]:
        """The build's groups of near-duplicates, in one transaction."""
        with self._database.writing(build.name) as connection:
            yield NearDuplicateRows(connection, build.namespace_id)

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
        """Note that a store shows this build; the old one is dropped when no store shows it."""
        with self._database.writing(build.name) as connection:
            connection.execute(delete(rebuild_table).where(_of(rebuild_table, build), _R.store == store))
            if connection.scalar(select(_R.store).where(_of(rebuild_table, build))) is None:
                _drop(connection, build.name + OLD)

    def promote(self, made: Build, *, stores: Collection[str]) -> None:
        """Make `made` the current build, which each store has yet to be rebuilt with."""
        name = made.name
        with self._database.writing(name) as connection:
            _drop(connection, name + OLD)
            for before, after in ((name, name + OLD), (name + NEXT, name)):
                connection.execute(update(namespace_table).where(_N.name == before).values(name=after))
            _have_rebuilt(connection, made, stores)

    def have_rebuilt(self, build: Build, stores: Collection[str]) -> None:
        """Note that these stores show another build, or the documents of another time."""
        with self._database.writing(build.name) as connection:
            _have_rebuilt(connection, build, stores)

    def drop(self, namespace: str, *builds: str) -> None:
        """Delete these builds of the namespace, or all."""
        with self._database.writing(namespace) as connection:
            for which in builds or (CURRENT, NEXT, OLD):
                _drop(connection, namespace + which)

    def namespaces(self) -> list[NamespaceState]:
        with self._database.reading() as connection:
            return lookups.namespaces(Plain(connection))

    @contextmanager
    def reading(self) -> Iterator[Plain]:
        with self._database.reading() as connection:
            yield Plain(connection)


def _of(table: Any, build: Build) -> Any:
    return table.c.namespace_id == build.namespace_id


def _documents(connection: Connection, build: Build, document_ids: Sequence[str]) -> dict[str, Document]:
    """The existing documents with their passages, by id."""
    asked = select(passage_table).where(_of(passage_table, build), _P.document_id.in_(document_ids))
    passages = defaultdict[str, list[Passage]](list)
    for row in connection.execute(asked.where(_living(passage_table)).order_by(_P.rid)):
        raw = row.vector
        vector = None if raw is None else np.frombuffer(raw, lookups.STORED).astype(np.float32)
        passage = Passage(row.passage_id, row.position, row.text, row.heading, row.start, row.end, vector)
        passages[row.document_id].append(passage)
    asked = select(document_table).where(_of(document_table, build), _D.document_id.in_(document_ids))
    return {
        row.document_id: Document(
            document_id=row.document_id,
            source=row.source,
            title=row.title,
            passages=tuple(passages[row.document_id]),
            metadata=row.metadata,
            content_hash=row.content_hash,
            near_duplicate_group=row.near_duplicate_group,
            revision=row.revision,
        )
        for row in connection.execute(asked.where(_living(document_table)))
    }


def _living(table: Table) -> Any:
    # The plus keeps databases from the index on `ended`, which matches nearly every row.
    return text(f"+{table.name}.ended IS NULL")


def _next(connection: Connection, build: Build) -> int:
    mine = _of(namespace_table, build)
    sequence: int = connection.execute(select(_N.sequence).where(mine)).scalar_one() + 1
    connection.execute(update(namespace_table).where(mine).values(sequence=sequence, visible=sequence))
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


def _prune(
    connection: Connection, build: Build, document_ids: Sequence[str], stores: Collection[str]
) -> None:
    """Delete what was replaced or deleted in every store."""
    for table in (passage_table, document_table):
        done = (
            select(func.count())
            .select_from(state_table)
            .where(
                _of(state_table, build),
                _S.document_id == table.c.document_id,
                _S.store.in_(stores),
                _S.state == WRITTEN,
                _S.sequence >= table.c.ended,
            )
            .correlate(table)
            .scalar_subquery()
        )
        ended = and_(_of(table, build), table.c.document_id.in_(document_ids), table.c.ended.is_not(None))
        connection.execute(delete(table).where(ended, done == len(stores)))
    kept = select(_D.document_id).where(_of(document_table, build), _D.document_id.in_(document_ids))
    gone = {*document_ids}.difference(connection.scalars(kept))
    _forget(connection, state_table, build, sorted(gone))


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


def _drop(connection: Connection, name: str) -> None:
    namespace_id = connection.scalar(select(_N.namespace_id).where(_N.name == name))
    if namespace_id is not None:
        for table in _PER_BUILD:
            connection.execute(delete(table).where(table.c.namespace_id == namespace_id))
