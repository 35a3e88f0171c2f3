"""The truth in SQLite, `corpus.db`, as it is read: with plain `sqlite3`, its errors as the store's.

SQLAlchemy, which takes .8 s to import, comes in with the writer (`transactions`): a search never needs it.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from search.embedded.connections import connected, format_of, translated

_KEPT_OPEN = 8
"""Connections that are kept when nobody reads; more are opened when more are needed."""

PULSE = """
    SELECT n.namespace_id, n.sequence, n.visible, coalesce(g.generation, 0), n.lexical, n.manifest
    FROM chorale_namespace n LEFT JOIN chorale_generation g ON g.name = n.name WHERE n.name = ?
"""


@dataclass(frozen=True, slots=True)
class Pulse:
    """Where a namespace stands now."""

    namespace_id: int
    sequence: int
    visible: int
    generation: int
    lexical: str
    manifest: str
    """JSON."""

    @property
    def is_behind(self) -> bool:
        """A batch is committed that the lexical index has not got (yet)."""
        return self.visible < self.sequence


class Corpus:
    """The file and its reading connections; opened at first use, so that it can be made before a fork."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opening = threading.Lock()
        self._is_set_up = False
        self._free: list[sqlite3.Connection] = []

    def pulse(self, namespace: str) -> Pulse | None:
        """None if there is no such namespace."""
        with translated(self.folder), self._borrowed() as connection:
            row = connection.execute(PULSE, (namespace,)).fetchone()
        return Pulse(*row) if row else None

    def lexical_folder(self, name: str) -> Path:
        return self.folder / "lexical" / name

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One snapshot, whatever is written meanwhile."""
        with translated(self.folder), self._borrowed() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                # SQLite itself has ended the transaction after some errors.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def set_up(self) -> None:
        """Make folder, file and tables where they are missing; raises BadIndex for a newer program's."""
        with self._opening:
            if not self._is_set_up:
                self.folder.mkdir(parents=True, exist_ok=True)
                connection = connected(self.folder)
                try:
                    is_new = format_of(connection, self.folder) == 0
                finally:
                    connection.close()
                if is_new:
                    from search.embedded.transactions import create_tables

                    create_tables(self.folder)
                self._is_set_up = True

    def close(self) -> None:
        with self._opening:
            free, self._free = self._free, []
            self._is_set_up = False
        for connection in free:
            connection.close()

    @contextmanager
    def _borrowed(self) -> Iterator[sqlite3.Connection]:
        if not self._is_set_up:
            self.set_up()
        free = self._free
        try:
            connection = free.pop()
        except IndexError:
            connection = connected(self.folder)
        try:
            yield connection
        finally:
            if free is self._free and len(free) < _KEPT_OPEN:
                free.append(connection)
            else:
                connection.close()
