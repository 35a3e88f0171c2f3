"""Copying the documents' database in a file, or a corpus."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from models.documents import NamespaceState
from models.errors import BadIndex
from search.documents.lookups import namespaces


def copy_documents(source: sqlite3.Connection, to: Path, name: str, advice: str) -> list[NamespaceState]:
    """Write all of `source` to the file `to`; returns its namespaces.  Raises BadIndex if it is damaged."""
    with closing(sqlite3.connect(to)) as target:
        # All pages in one step: with several steps, every write in between would restart the copy.
        source.backup(target)
        if (reason := target.execute("PRAGMA quick_check").fetchone()[0]) != "ok":
            raise BadIndex(f"{name} is damaged ({reason}); {advice}")
        return namespaces(target)
