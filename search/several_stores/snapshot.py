"""Consistent copies of the table of documents and the embedded stores beside it, while they are written."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from sqlalchemy import create_engine, make_url
from sqlalchemy.pool import NullPool

from models.documents import NamespaceState
from models.errors import BadIndex, StoreUnavailable
from search.embedded.snapshot import still_corpus
from search.several_stores.database import Database
from search.several_stores.document_table import DocumentTable, read_namespaces

_TRIES, _PAUSE_S = 500, 0.01


def table_file(url: str) -> Path | None:
    """The file of the table of documents; None if a server holds it."""
    parsed = make_url(url)
    return Path(parsed.database or "") if parsed.get_backend_name() == "sqlite" else None


@contextmanager
def still(
    table: Path, folders: Sequence[Path]
) -> Iterator[tuple[sqlite3.Connection, list[sqlite3.Connection]]]:
    """Connections to the table and to the corpora in `folders` that all see the same moment while they are open.

    A batch is committed to the table, to the stores, and to the table again.  If the table did not change while the
    stores' snapshots were opened, they are together a state that a crash could have left and that `settle` can
    continue from.  Raises BadIndex for a damaged corpus, StoreUnavailable if the table cannot be read or never
    stops changing.
    """
    with closing(DocumentTable(Database(f"sqlite:///{table}"))) as opened:
        opened.namespaces()  # creates the file and its tables if they are missing
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
    """Write the whole table to `to`; returns its namespaces.  Raises BadIndex if it is damaged."""
    with closing(sqlite3.connect(to)) as target:
        source.backup(target)
        if (said := target.execute("PRAGMA quick_check").fetchone()[0]) != "ok":
            raise BadIndex(f"the table of documents is damaged ({said}); restore an older backup of it")
    engine = create_engine(f"sqlite:///{to}", poolclass=NullPool)
    with engine.connect() as connection:
        return read_namespaces(connection)


def table_generations(file: Path) -> dict[str, int]:
    """Generations by name, also of dropped namespaces; empty if there is no table."""
    if not file.exists():
        return {}
    try:
        with closing(sqlite3.connect(file)) as connection:
            return dict(connection.execute("SELECT name, generation FROM chorale_stored_generation"))
    except sqlite3.Error:
        # A damaged or empty file has no generations.
        return {}


def table_from(
    copy: Path, file: Path, *, generations: Mapping[str, int], to_rebuild: Collection[str]
) -> dict[str, int]:
    """Create `file` from a copy; returns the generations of its namespaces, raised to at least `generations`.

    `settle` will rebuild the stores `to_rebuild`, which show the namespaces as of another time.
    """
    shutil.copyfile(copy, file)
    with closing(DocumentTable(Database(f"sqlite:///{file}"))) as table:
        for name, least in generations.items():
            with table.exclusive(name):
                table.raise_generation(name, least)
        states = table.namespaces()
        for state in states:
            with table.exclusive(state.name):
                build = table.find(state.name)
                assert build is not None
                table.have_rebuilt(build, to_rebuild)
        return {state.name: table.generation(state.name) for state in states}


def _version(connection: sqlite3.Connection) -> int:
    """Changes with each commit of another connection."""
    return int(connection.execute("PRAGMA data_version").fetchone()[0])
