"""Copies of the table of documents and of the embedded stores beside it, of one moment, while they are written."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from sqlalchemy import create_engine, delete, insert, make_url
from sqlalchemy.pool import NullPool

from models.document_tables import rebuild_table
from models.documents import NamespaceState
from models.errors import BadIndex, StoreUnavailable
from search.embedded.snapshot import still_corpus
from search.several_stores.database import Database
from search.several_stores.document_table import Build, DocumentTable
from search.several_stores.namespace_rows import read_namespaces

_TRIES, _PAUSE_S = 500, 0.01


def table_file(url: str) -> Path | None:
    """The file of the table of documents; None where a server has it."""
    parsed = make_url(url)
    return Path(parsed.database or "") if parsed.get_backend_name() == "sqlite" else None


@contextmanager
def still(
    table: Path, folders: Sequence[Path]
) -> Iterator[tuple[sqlite3.Connection, list[sqlite3.Connection]]]:
    """Connections to the table and to the corpora in `folders` that see one moment, for as long as they are open.

    A batch is committed to the table, to the stores, and to the table again.  Where the table did not change while
    the stores' snapshots were begun, they are together what a crash would have left, and what `settle` goes on from.
    Raises BadIndex for a damaged one, StoreUnavailable where the table cannot be read or is never still.
    """
    _make(table)
    try:
        with closing(sqlite3.connect(table)) as watching:
            for _ in range(_TRIES):
                before = _version(watching)
                with ExitStack() as opened:
                    source = opened.enter_context(closing(sqlite3.connect(table)))
                    source.execute("BEGIN")
                    source.execute("SELECT count(*) FROM sqlite_schema")
                    corpora = [opened.enter_context(still_corpus(folder)) for folder in folders]
                    if _version(watching) == before:
                        yield source, corpora
                        return
                time.sleep(_PAUSE_S)
    except sqlite3.Error as error:
        raise StoreUnavailable(f"the table of documents in {table} cannot be read: {error}") from error
    raise StoreUnavailable(
        f"the table of documents in {table} is written without a pause: try again when less is indexed"
    )


def copy_table(source: sqlite3.Connection, to: Path) -> list[NamespaceState]:
    """Write `to`, the whole table; returns what is in it.  Raises BadIndex for a damaged one."""
    with closing(sqlite3.connect(to)) as target:
        source.backup(target)
        if (said := target.execute("PRAGMA quick_check").fetchone()[0]) != "ok":
            raise BadIndex(f"the table of documents is damaged ({said}); restore an older backup of it")
    engine = create_engine(f"sqlite:///{to}", poolclass=NullPool)
    with engine.connect() as connection:
        return read_namespaces(connection)


def table_generations(file: Path) -> dict[str, int]:
    """By name, also those of namespaces that were dropped; empty where there is no table."""
    if not file.exists():
        return {}
    try:
        with closing(sqlite3.connect(file)) as connection:
            return dict(connection.execute("SELECT name, generation FROM chorale_stored_generation"))
    except sqlite3.Error:
        # What is damaged, or was never written, says nothing.
        return {}


def table_from(
    copy: Path, file: Path, *, generations: Mapping[str, int], to_rebuild: Collection[str]
) -> dict[str, int]:
    """Make `file` of a copy; returns the generations of its namespaces, at least those of `generations`, by name.

    `to_rebuild` are stores that show what the namespaces were at another time: `settle` builds them anew.
    """
    shutil.copyfile(copy, file)
    database = Database(f"sqlite:///{file}")
    table = DocumentTable(database)
    try:
        for name, least in generations.items():
            with table.exclusive(name):
                table.raise_generation(name, least)
        states = table.namespaces()
        for state in states:
            with table.exclusive(state.name):
                build = table.find(state.name)
                assert build is not None
                _mark(database, build, to_rebuild)
        return {state.name: table.generation(state.name) for state in states}
    finally:
        table.close()


def _make(table: Path) -> None:
    opened = DocumentTable(Database(f"sqlite:///{table}"))
    opened.namespaces()
    opened.close()


def _mark(database: Database, build: Build, stores: Collection[str]) -> None:
    rows = [{"namespace_id": build.namespace_id, "store": store} for store in sorted(stores)]
    with database.writing(build.name) as connection:
        connection.execute(
            delete(rebuild_table).where(
                rebuild_table.c.namespace_id == build.namespace_id, rebuild_table.c.store.in_(stores)
            )
        )
        if rows:
            connection.execute(insert(rebuild_table), rows)


def _version(connection: sqlite3.Connection) -> int:
    """Another number after each commit of somebody else's."""
    return int(connection.execute("PRAGMA data_version").fetchone()[0])
