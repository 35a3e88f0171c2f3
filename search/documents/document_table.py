"""The table of documents, which is the truth of an installation, and how far each store has come with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from sqlalchemy import Connection, Table, delete, func, insert, or_, select, text, update

from models.batching import in_batches
from models.documents import Document, Manifest, NamespaceState, Passage
from models.tables.documents import (
    document_table,
    generation_table,
    index_table,
    namespace_table,
    near_duplicates_metadata,
    passage_table,
    refused_table,
)
from search.documents import document_rows, index_rows, lookups
from search.documents.database import Database, Plain
from search.documents.document_rows import end_documents, insert_documents
from search.documents.index_rows import AT_ONCE, IndexRow
from search.documents.lookups import OLD
from search.near_duplicate_rows import NearDuplicateRows
from search.protocol import Entry

CURRENT, NEXT = "", ".next"
"""What follows the name of a namespace: of the build that is written, and of a rebuild in progress; `OLD` is that of the
build before."""

_D, _P, _N = document_table.c, passage_table.c, namespace_table.c
_G, _I = generation_table.c, index_table.c
_PER_BUILD = (
    passage_table,
    document_table,
    index_table,
    refused_table,
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
class Changes:
    """A task for a store: show these documents, and delete those ids."""

    sequence: int
    """The last batch that a store contains when it has done so."""
    documents: Sequence[Document] = ()
    deleted: Sequence[str] = ()

    @property
    def ids(self) -> list[str]:
        return [*(document.document_id for document in self.documents), *self.deleted]


@dataclass(frozen=True, slots=True)
class Written:
    """What a store did with some changes."""

    row: IndexRow
    changes: Changes
    refused: Mapping[str, str] = field(default_factory=dict)
    """The reasons by document id."""


class DocumentTable(Database):
    """Thread-safe.  Call methods that belong together inside `exclusive`."""

    @contextmanager
    def reading(self) -> Iterator[Plain]:
        with self.snapshot() as connection:
            yield Plain(connection)

    def find(self, namespace: str, which: str = CURRENT) -> Build | None:
        statement = select(namespace_table).where(_N.name == namespace + which)
        with self.snapshot() as connection:
            row = connection.execute(statement).one_or_none()
        if row is None:
            return None
        return Build(row.namespace_id, namespace, Manifest.from_stored(row.manifest))

    def make(
        self, namespace: str, manifest: Manifest, which: str = CURRENT, *, stores: Collection[str] = ()
    ) -> None:
        """Make a build, with an empty index in each of `stores`."""
        with self.writing(namespace) as connection:
            row = {"name": namespace + which, "manifest": asdict(manifest), "sequence": 0}
            key = connection.execute(insert(namespace_table).values(row)).inserted_primary_key
            assert key is not None
            for store in stores:
                build = Build(key[0], namespace, manifest)
                index_rows.add_index(connection, store, build, sequence=0, is_visible=True)

    def describe(self, build: Build) -> None:
        """Commit the manifest of a build."""
        with self.writing(build.name) as connection:
            new = update(namespace_table).where(_in_build(namespace_table, build))
            connection.execute(new.values(manifest=asdict(build.manifest)))

    def put(self, build: Build, documents: Sequence[Document]) -> Changes:
        """Commit documents, each replaced whole; returns the changes for the stores."""
        with self.writing(build.name) as connection:
            sequence = _next(connection, build)
            ids = [document.document_id for document in documents]
            end_documents(connection, build.namespace_id, sequence, ids)
            insert_documents(connection, build.namespace_id, sequence, documents)
        return Changes(sequence, documents)

    def take_out(self, build: Build, document_ids: Iterable[str]) -> Changes | None:
        """Commit the deletion of those documents that exist; returns the changes for the stores, if there are any."""
        with self.writing(build.name) as connection:
            existing = lookups.revisions_of(
                Plain(connection), build.namespace_id, sorted(set(document_ids)), None
            )
            if not existing:
                return None
            sequence = _next(connection, build)
            end_documents(connection, build.namespace_id, sequence, list(existing))
        return Changes(sequence, deleted=list(existing))

    def record(
        self, build: Build, written: Iterable[Written], *, stores: Collection[str], is_seen: bool = True
    ) -> int:
        """Commit what stores have done; returns the generation, which rises if readers see something new.

        What each of `stores` has replaced or deleted is removed.
        """
        with self.writing(build.name) as connection:
            ids = set[str]()
            for done in written:
                index_rows.set_index(connection, done.row, sequence=done.changes.sequence)
                index_rows.set_refused(
                    connection, build.namespace_id, done.row.store, done.changes.ids, done.refused
                )
                ids.update(done.changes.ids)
            document_rows.prune(connection, build.namespace_id, ids, stores)
            return _raise_generation(connection, build.name, by=int(is_seen))

    def refuse(self, build: Build, store: str, document_ids: Sequence[str]) -> None:
        """Have these documents written to a store again."""
        if document_ids:
            reasons = dict.fromkeys(document_ids, "not written yet")
            with self.writing(build.name) as connection:
                index_rows.set_refused(connection, build.namespace_id, store, document_ids, reasons)

    def refused(self, build: Build, store: str) -> Iterator[dict[str, str]]:
        """The reasons for which a store lacks documents of batches that it contains, by id, in order and in portions."""
        after = ""
        while True:
            with self.snapshot() as connection:
                portion = index_rows.refused(connection, build.namespace_id, store, after)
            if not portion:
                return
            yield portion
            *_, after = portion

    def refused_of(self, build: Build, store: str, document_ids: Collection[str]) -> dict[str, str]:
        """The reasons of those of these documents that a store has refused."""
        with self.snapshot() as connection:
            return index_rows.refused_of(connection, build.namespace_id, store, document_ids)

    def changed_since(self, build: Build, sequence: int) -> Iterator[tuple[list[str], int]]:
        """The documents that later batches wrote or deleted, in portions of whole batches, each with its last batch."""
        while True:
            with self.snapshot() as connection:
                portion = document_rows.changed_since(connection, build.namespace_id, sequence)
            if portion is None:
                return
            yield portion
            sequence = portion[1]

    def count_changed_since(self, build: Build, sequence: int) -> int:
        """The number of documents that `changed_since` yields."""
        later = or_(_D.sequence > sequence, _D.ended > sequence)
        changed = select(func.count(_D.document_id.distinct())).where(_in_build(document_table, build), later)
        with self.snapshot() as connection:
            return connection.scalar(changed) or 0

    def changes_since(self, build: Build, sequence: int) -> Iterator[Changes]:
        """What a store has to do that contains everything up to a batch, in portions of whole batches."""
        for document_ids, last in self.changed_since(build, sequence):
            yield self.changes(build, document_ids, last)
            sequence = last
        with self.snapshot() as connection:
            latest = connection.execute(
                select(_N.sequence).where(_in_build(namespace_table, build))
            ).scalar_one()
        if sequence < latest:
            # Every store has deleted what the last batches have deleted.
            yield Changes(latest)

    def changes(self, build: Build, document_ids: Sequence[str], sequence: int) -> Changes:
        """The present task of a store for these ids."""
        documents: dict[str, Document] = {}
        with self.snapshot() as connection:
            for part in in_batches(document_ids, AT_ONCE):
                documents |= _documents(connection, build, part)
        deleted = [document_id for document_id in document_ids if document_id not in documents]
        return Changes(sequence, list(documents.values()), deleted)

    def indexes(self, build: Build) -> dict[str, IndexRow]:
        """The newest index of each store of this build."""
        with self.snapshot() as connection:
            rows = index_rows.index_rows(connection, [build.name])
        return {row.store: row for row in reversed(rows)}

    def all_indexes(self, namespace: str) -> list[IndexRow]:
        """Those of the build before, too."""
        with self.snapshot() as connection:
            return index_rows.index_rows(connection, [namespace + which for which in (CURRENT, NEXT, OLD)])

    def add_index(self, build: Build, store: str) -> IndexRow:
        """Note an index that is about to be built, and is not shown yet."""
        with self.writing(build.name) as connection:
            return index_rows.add_index(connection, store, build, sequence=0, is_visible=False)

    def empty_index(self, row: IndexRow) -> None:
        """Note that a store has lost the index, which therefore contains no batch."""
        with self.writing(row.index.namespace) as connection:
            index_rows.set_index(connection, row, sequence=0)

    def show_index(self, row: IndexRow) -> None:
        with self.writing(row.index.namespace) as connection:
            index_rows.set_index(connection, row, is_shown=True)
            _raise_generation(connection, row.index.namespace, by=1)

    def move(self, build: Build, stores: Sequence[str]) -> None:
        """Have these stores alone serve the namespace: their indexes are shown from now on."""
        with self.writing(build.name) as connection:
            for row in index_rows.index_rows(connection, [build.name]):
                if row.store in stores:
                    index_rows.set_index(connection, row, is_shown=True)
            manifest = asdict(replace(build.manifest, stores=list(stores)))
            new = update(namespace_table).where(_in_build(namespace_table, build))
            connection.execute(new.values(manifest=manifest))
            _raise_generation(connection, build.name, by=1)

    def forget_index(self, row: IndexRow) -> None:
        """Note that an index is gone."""
        with self.writing(row.index.namespace) as connection:
            index_rows.delete_index(connection, row)

    def revisions(self, build: Build, source: str | None = None) -> dict[str, str]:
        with self.reading() as rows:
            return lookups.revisions(rows, build.namespace_id, source)

    def revisions_of(
        self, build: Build, document_ids: Iterable[str], source: str | None = None
    ) -> dict[str, str]:
        with self.reading() as rows:
            return lookups.revisions_of(rows, build.namespace_id, list(document_ids), source)

    def entries(self, build: Build) -> Iterator[Entry]:
        """Every passage of every document; a document without any has one entry."""
        with self.reading() as rows:
            yield from lookups.entries(rows, build.namespace_id)

    def namespaces(
        self, *, limit: int | None = None, names: Collection[str] | None = None
    ) -> list[NamespaceState]:
        """As `lookups.namespaces`."""
        with self.reading() as rows:
            return lookups.namespaces(rows, limit=limit, names=names)

    @contextmanager
    def near_duplicate_rows(self, build: Build) -> Iterator[NearDuplicateRows]:
        """The build's groups of near-duplicates, in one transaction."""
        with self.writing(build.name) as connection:
            yield NearDuplicateRows(connection, build.namespace_id)

    def generation(self, namespace: str) -> int:
        with self.snapshot() as connection:
            return connection.scalar(select(_G.generation).where(_G.name == namespace)) or 0

    def raise_generation(self, namespace: str, least: int = 0, *, by: int = 0) -> int:
        """Raise the generation to at least `least`, and then `by`; returns the present one."""
        with self.writing(namespace) as connection:
            return _raise_generation(connection, namespace, least, by=by)

    def promote(self, made: Build) -> None:
        """Make `made` the current build, of which each store has yet to build an index."""
        name = made.name
        with self.writing(name) as connection:
            ids = dict(
                connection.execute(
                    select(_N.name, _N.namespace_id).where(_N.name.in_((name, name + OLD)))
                ).all()
            )
            if name + OLD in ids and name in ids:
                # Whoever shows an index of that build goes on with it until the new one is there.
                has_old_build = _I.namespace_id == ids[name + OLD]
                connection.execute(update(index_table).where(has_old_build).values(namespace_id=ids[name]))
            _drop(connection, name + OLD)
            for before, after in ((name, name + OLD), (name + NEXT, name)):
                connection.execute(update(namespace_table).where(_N.name == before).values(name=after))

    def restored(self, build: Build, servers: Collection[str]) -> None:
        """Have every index built anew, since it is of another time; only servers still have theirs."""
        with self.writing(build.name) as connection:
            for row in index_rows.index_rows(connection, [build.name]):
                if row.store not in servers:
                    index_rows.delete_index(connection, row)
            for store in servers:
                if build.manifest.stores and store not in build.manifest.stores:
                    continue
                index_rows.add_index(connection, store, build, sequence=0, is_visible=False)

    def drop(self, namespace: str, *builds: str) -> None:
        """Delete these builds of the namespace, or all."""
        with self.writing(namespace) as connection:
            for which in builds or (CURRENT, NEXT, OLD):
                _drop(connection, namespace + which)


def _in_build(table: Any, build: Build) -> Any:
    return table.c.namespace_id == build.namespace_id


def _documents(connection: Connection, build: Build, document_ids: Sequence[str]) -> dict[str, Document]:
    """The existing documents with their passages, by id."""
    statement = select(passage_table).where(_in_build(passage_table, build), _P.document_id.in_(document_ids))
    passages = defaultdict[str, list[Passage]](list)
    for row in connection.execute(statement.where(_living(passage_table)).order_by(_P.rid)):
        raw = row.vector
        vector = None if raw is None else np.frombuffer(raw, lookups.STORED).astype(np.float32)
        passage = Passage(
            row.passage_id, row.position, row.text, row.heading, row.start, row.end, vector, row.pages or ""
        )
        passages[row.document_id].append(passage)
    statement = select(document_table).where(
        _in_build(document_table, build), _D.document_id.in_(document_ids)
    )
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
        for row in connection.execute(statement.where(_living(document_table)))
    }


def _living(table: Table) -> Any:
    # The plus keeps databases from the index on `ended`, which matches nearly every row.
    return text(f"+{table.name}.ended IS NULL")


def _next(connection: Connection, build: Build) -> int:
    mine = _in_build(namespace_table, build)
    sequence: int = connection.execute(select(_N.sequence).where(mine)).scalar_one() + 1
    connection.execute(update(namespace_table).where(mine).values(sequence=sequence))
    return sequence


def _raise_generation(connection: Connection, namespace: str, least: int = 0, *, by: int = 0) -> int:
    mine = _G.name == namespace
    before = connection.scalar(select(_G.generation).where(mine))
    generation = max(before or 0, least) + by
    if before is None:
        connection.execute(insert(generation_table).values(name=namespace, generation=generation))
    elif generation > before:
        connection.execute(update(generation_table).where(mine).values(generation=generation))
    return generation


def _drop(connection: Connection, name: str) -> None:
    namespace_id = connection.scalar(select(_N.namespace_id).where(_N.name == name))
    if namespace_id is not None:
        for table in _PER_BUILD:
            connection.execute(delete(table).where(table.c.namespace_id == namespace_id))
