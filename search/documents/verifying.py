"""Comparing what the indexes of stores hold with the documents, in bounded memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter

from models.batching import in_batches
from models.errors import BadIndex, ServiceError, StoreUnavailable
from search.documents.document_table import Build, Changes, DocumentTable
from search.documents.engine_writer import EngineWriter
from search.documents.index_rows import IndexRow
from search.protocol import Engine, Entry

_BATCH = 256
MOST_LISTED = 10_000
"""A list names at most this many documents."""


@dataclass(slots=True)
class Difference:
    """The difference between one store and the documents: the first `MOST_LISTED` of each kind, sorted, and their numbers."""

    missing: list[str] = field(default_factory=list)
    """Documents that the store does not show."""
    outdated: list[str] = field(default_factory=list)
    """Documents that it shows in another revision."""
    incomplete: list[str] = field(default_factory=list)
    """Documents that it shows without some of their passages."""
    surplus: list[str] = field(default_factory=list)
    """Documents that it shows and the database does not have."""
    failure: str | None = None
    """Why the comparison, or the deletion of what is surplus, failed."""
    counts: dict[str, int] = field(default_factory=dict, compare=False)
    """How many documents there are of each kind."""

    def add(self, differing: Iterable[tuple[str, str]]) -> None:
        """Count and list what `compared` yields."""
        for kind, document_id in differing:
            self.counts[kind] = self.counts.get(kind, 0) + 1
            if self.counts[kind] <= MOST_LISTED:
                getattr(self, kind).append(document_id)

    def __bool__(self) -> bool:
        return bool(self.counts or self.failure)


def difference(
    table: DocumentTable, build: Build, writer: EngineWriter, row: IndexRow | None, *, mends: bool
) -> Difference:
    """The difference between a store and the database.  With `mends`, what the store has beyond the documents is deleted, and
    what it lacks counts as refused, so that it is written again.  `row`: the store's index; None if it has none."""
    differing = Difference()
    writer.retry_now()
    try:
        for some in in_batches(compared(table, build, writer.store, row), _BATCH):
            differing.add(some)
            if mends and row is not None:
                _mend(table, build, writer, row, some)
    except ServiceError as error:
        differing.failure = str(error)
    return differing


def _mend(
    table: DocumentTable,
    build: Build,
    writer: EngineWriter,
    row: IndexRow,
    differing: Sequence[tuple[str, str]],
) -> None:
    surplus = [document_id for kind, document_id in differing if kind == "surplus"]
    lacking = {document_id: None for kind, document_id in differing if kind != "surplus"}
    table.refuse(build, writer.name, list(lacking))
    if surplus and (refused := writer.write(row.index, Changes(0, deleted=surplus))):
        raise ServiceError(next(iter(refused.values())))


def compared(
    table: DocumentTable, build: Build, store: Engine, row: IndexRow | None
) -> Iterator[tuple[str, str]]:
    """Each kind of difference with the document, in the order of the ids; `row`: the store's index; None if it has none.

    Raises the store's ServiceError, and StoreUnavailable if the temporary file cannot be used.
    """
    with _temporary_file() as sorting:
        sorting.execute(
            "CREATE TABLE entry (document_id TEXT, in_store INTEGER, passage_id TEXT, revision TEXT)"
        )
        _insert(sorting, table.entries(build), in_store=False)
        if row is not None:
            sorting.execute("SAVEPOINT entries")
            try:
                _insert(sorting, store.entries(row.index), in_store=True)
            except BadIndex:
                # The store has lost the index, so every document is missing.
                sorting.execute("ROLLBACK TO entries")
        entries = sorting.execute("SELECT * FROM entry ORDER BY document_id, in_store")
        for document_id, document_entries in groupby(entries, itemgetter(0)):
            for kind in _kinds(document_entries):
                yield kind, document_id


@contextmanager
def _temporary_file() -> Iterator[sqlite3.Connection]:
    """A file of SQLite that has no name sorts the entries: engines yield them in any order."""
    try:
        with closing(sqlite3.connect("")) as connection:
            yield connection
    except sqlite3.Error as error:
        raise StoreUnavailable(f"the temporary file of the comparison cannot be used: {error}") from error


def _insert(sorting: sqlite3.Connection, entries: Iterable[Entry], *, in_store: bool) -> None:
    rows = ((entry.document_id, in_store, entry.passage_id, entry.revision) for entry in entries)
    sorting.executemany("INSERT INTO entry VALUES (?, ?, ?, ?)", rows)


def _kinds(entries: Iterable[tuple[str, int, str | None, str | None]]) -> Iterator[str]:
    """The kinds of difference of one document."""
    revisions: tuple[set[str], set[str]] = set(), set()
    passages: tuple[set[str], set[str]] = set(), set()
    for _, in_store, passage_id, revision in entries:
        if revision is not None:
            revisions[in_store].add(revision)
        if passage_id is not None:
            passages[in_store].add(passage_id)
    if not revisions[False]:
        yield "surplus"
    elif not revisions[True]:
        yield "missing"
    else:
        if revisions[False] != revisions[True]:
            yield "outdated"
        if passages[False] - passages[True]:
            yield "incomplete"
