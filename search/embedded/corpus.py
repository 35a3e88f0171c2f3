"""Reading the truth in SQLite, `corpus.db`, with plain `sqlite3`.

Only the writer (`transactions`) imports SQLAlchemy, which takes .8 s; a search never needs it.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from models.documents import Manifest
from models.errors import UnknownNamespace
from search.embedded.connections import connected, corpus_file, file_number, format_of, gone, translated

_KEPT_OPEN = 8
"""Idle connections that are kept open; more are opened when needed."""

_PULSE = """
    SELECT n.namespace_id, n.sequence, n.visible, coalesce(g.generation, 0), n.lexical, n.manifest
    FROM chorale_namespace n LEFT JOIN chorale_generation g ON g.name = n.name WHERE n.name = ?
"""


@dataclass(frozen=True, slots=True)
class Pulse:
    """The present state of a namespace."""

    namespace_id: int
    sequence: int
    visible: int
    generation: int
    lexical: str
    manifest_json: str

    @property
    def manifest(self) -> Manifest:
        return Manifest.from_stored(json.loads(self.manifest_json))

    @property
    def is_behind(self) -> bool:
        """Whether a committed batch is not in the lexical index yet."""
        return self.visible < self.sequence


def read_pulse(connection: sqlite3.Connection, namespace: str) -> Pulse | None:
    row = connection.execute(_PULSE, (namespace,)).fetchone()
    return Pulse(*row) if row else None


class Corpus:
    """The file and its reading connections; opened at first use, so that the object can be created before a fork."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opening = threading.Lock()
        self._is_set_up = False
        self._free: list[sqlite3.Connection] = []
        self._file: tuple[int, int] | None = None
        self.replaced = 0
        """Number of times another file replaced the open one.  Anything read before a replacement is invalid."""

    def pulse(self, namespace: str) -> Pulse | None:
        """The namespace's present state; None if there is no such namespace."""
        with translated(self.folder), self._borrowed() as connection:
            return read_pulse(connection, namespace)

    def known(self, namespace: str) -> Pulse:
        """Raises UnknownNamespace."""
        return self.existing(namespace, self.pulse(namespace))

    def existing(self, namespace: str, pulse: Pulse | None) -> Pulse:
        """The pulse; raises UnknownNamespace if it is None."""
        if pulse is None:
            raise UnknownNamespace(namespace, str(self.folder), sorted(self.names())[:20])
        return pulse

    def names(self) -> set[str]:
        """All namespaces."""
        with translated(self.folder), self._borrowed() as connection:
            return {name for (name,) in connection.execute("SELECT name FROM chorale_namespace")}

    def lexical_folder(self, name: str) -> Path:
        return self.folder / "lexical" / name

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One snapshot, which later writes do not change."""
        with translated(self.folder), self._borrowed() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                # SQLite itself ends the transaction after some errors.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def set_up(self) -> None:
        """Create folder, file and tables if missing; raises BadIndex if a newer program created them."""
        with self._opening:
            if not self._is_set_up:
                self.folder.mkdir(parents=True, exist_ok=True)
                with closing(connected(self.folder, make=True)) as connection:
                    is_new = format_of(connection, self.folder) == 0
                if is_new:
                    from search.embedded.transactions import create_tables

                    create_tables(self.folder)
                self._file = file_number(self.folder)
                self._is_set_up = True

    @property
    def is_there(self) -> bool:
        return file_number(self.folder) is not None

    def set_aside(self) -> Path | None:
        """Rename the file and its companions; returns the new path, or None if there was no file.

        Close everything first.
        """
        file = corpus_file(self.folder)
        aside = file.with_name(f"{file.name}.damaged-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}")
        for part in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                file.with_name(file.name + part).rename(aside.with_name(aside.name + part))
        return aside if aside.exists() else None

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
        if (found := file_number(self.folder)) != self._file:
            self._follow(found)
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

    def _follow(self, found: tuple[int, int] | None) -> None:
        """Use the new file from now on.  If there is none, open connections can still read the whole old file."""
        if found is None:
            if not self._free:
                raise gone(self.folder)
            return
        with self._opening:
            if found == self._file:
                return
            old, self._free = self._free, []
            self._file = found
            self.replaced += 1
        for connection in old:
            connection.close()
