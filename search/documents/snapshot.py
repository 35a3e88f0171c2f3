"""A consistent copy of the documents' database while it is written, and a database made from such a copy.

The indexes of stores are not copied: they are built from the documents.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Collection, Mapping
from contextlib import closing, suppress
from pathlib import Path

from models.documents import NamespaceState
from models.errors import BadIndex
from search.documents.document_table import DocumentTable
from search.documents.file_reading import connected, translated
from search.documents.lookups import namespaces


def copy_documents(file: Path, to: Path) -> list[NamespaceState]:
    """Write the database as of one moment to the file `to`; returns its namespaces.

    Creates the database if it is missing.  Raises BadIndex if it is damaged.
    """
    with closing(DocumentTable(file)) as table:
        table.prepare()
    with translated(file), closing(connected(file)) as source, closing(sqlite3.connect(to)) as target:
        # All pages in one step: with several steps, every write in between would restart the copy.
        source.backup(target)
        if (reason := target.execute("PRAGMA quick_check").fetchone()[0]) != "ok":
            raise BadIndex(f"{file} is damaged ({reason}); restore an older backup, or index again")
        return namespaces(target)


def generations_in(file: Path, *, is_copy: bool = False) -> dict[str, int]:
    """Generations by name, also of dropped namespaces; empty if there is no database.

    A journal beside a copy is not part of it, and is not read.
    """
    if file.exists():
        # A damaged or empty file has no such table.
        with suppress(sqlite3.Error), closing(_opened(file, is_copy)) as connection:
            return dict(connection.execute("SELECT name, generation FROM chorale_generation"))
    return {}


def _opened(file: Path, is_copy: bool) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.absolute().as_uri()}{'?immutable=1' if is_copy else ''}", uri=True)


def documents_from(
    copy: Path, file: Path, *, generations: Mapping[str, int], servers: Collection[str]
) -> dict[str, int]:
    """Create `file` from a copy; returns the generations of its namespaces, raised to at least `generations`.

    Every index will be built anew; `servers` are the stores that show one of another time until then.
    """
    shutil.copyfile(copy, file)
    with closing(DocumentTable(file)) as table:
        for name, least in generations.items():
            with table.exclusive(name):
                table.raise_generation(name, least)
        for state in table.namespaces():
            with table.exclusive(state.name):
                build = table.find(state.name)
                assert build is not None
                table.restored(build, servers)
        return {state.name: state.generation for state in table.namespaces()}
