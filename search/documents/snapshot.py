"""Consistent copies of the table of documents and the embedded stores beside it, while they are written."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from pathlib import Path

from sqlalchemy import make_url

from models.documents import NamespaceState
from models.errors import StoreUnavailable
from search.documents.copying import copy_documents
from search.documents.database import Database
from search.documents.document_table import DocumentTable

_TRIES, _PAUSE_S = 500, 0.01


def table_file(url: str) -> Path | None:
    """The file of the table of documents; None if a server holds it."""
    parsed = make_url(url)
    return Path(parsed.database or "") if parsed.get_backend_name() == "sqlite" else None


@contextmanager
def still(
    table: Path, corpora: Sequence[Callable[[], AbstractContextManager[sqlite3.Connection]]]
) -> Iterator[tuple[sqlite3.Connection, list[sqlite3.Connection]]]:
    """Connections to the table and to the corpora that all see the same moment while they are open.

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
                    snapshots = [opened.enter_context(still_corpus()) for still_corpus in corpora]
                    if _version(watching) == before:
                        yield source, snapshots
                        return
                time.sleep(_PAUSE_S)
    except sqlite3.Error as error:
        raise StoreUnavailable(f"the table of documents in {table} cannot be read: {error}") from error
    raise StoreUnavailable(
        f"the table of documents in {table} is written without a pause: try again when less is indexed"
    )


def copy_table(source: sqlite3.Connection, to: Path) -> list[NamespaceState]:
    """Write the whole table to `to`; returns its namespaces.  Raises BadIndex if it is damaged."""
    return copy_documents(source, to, "the table of documents", "restore an older backup of it")


def table_generations(file: Path) -> dict[str, int]:
    """Generations by name, also of dropped namespaces; empty if there is no table."""
    if not file.exists():
        return {}
    # The second one is a backup's of an older version.  A damaged or empty file has neither.
    for table in ("chorale_generation", "chorale_stored_generation"):
        with suppress(sqlite3.Error), closing(sqlite3.connect(file)) as connection:
            return dict(connection.execute(f"SELECT name, generation FROM {table}"))
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
