"""Connections to `corpus.db`, its format, and the translation of SQLite's errors to a store's errors."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from models.errors import BadIndex, InvalidAnswer, StoreUnavailable

CORPUS_FORMAT = 1
"""Increased with every change of the tables or the lexical index that an older program cannot read."""

_PRAGMAS = (
    "busy_timeout = 5000",
    "synchronous = FULL",  # an acknowledged batch survives a power cut
    "journal_size_limit = 67108864",
    "cache_size = -16384",
)
_PASSING = ("locked", "busy", "disk is full", "disk full", "readonly", "read-only", "unable to open")
"""Words of SQLite's errors for a file that is intact but cannot be used now."""


def corpus_file(folder: Path) -> Path:
    return folder / "corpus.db"


def file_number(folder: Path) -> tuple[int, int] | None:
    """Identifies the file, so that a replacement under the same name is noticed; None if there is no file."""
    try:
        found = corpus_file(folder).stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def gone(folder: Path) -> BadIndex:
    return BadIndex(
        f"{corpus_file(folder)} is gone; restore it from a backup, or index again with `chorale index --rebuild`"
    )


def connected(folder: Path, *, make: bool = False) -> sqlite3.Connection:
    """A connection for one thread at a time; transactions begin only with an explicit BEGIN.

    `make` creates an empty file if there is none.
    """
    address = f"{corpus_file(folder).absolute().as_uri()}?mode={'rwc' if make else 'rw'}"
    connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
    try:
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise
    return connection


def format_of(connection: sqlite3.Connection, folder: Path) -> int:
    """0 for an empty file; raises BadIndex if only a newer or an older program can read it."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > CORPUS_FORMAT:
        raise BadIndex(
            f"the corpus in {folder} has format {version}, and this program reads up to "
            f"{CORPUS_FORMAT}: use the newer program, or index into another folder"
        )
    if 0 < version < CORPUS_FORMAT:
        raise BadIndex(
            f"the corpus in {folder} has format {version}, and this program reads {CORPUS_FORMAT}: move the folder "
            "away and index again with `chorale index PATH…`"
        )
    return version


@contextmanager
def translated(folder: Path) -> Iterator[None]:
    """Translates errors: StoreUnavailable for what may pass, BadIndex for damage."""
    try:
        yield
    except sqlite3.Error as error:
        if any(words in str(error).lower() for words in _PASSING):
            raise StoreUnavailable(f"the corpus in {folder} cannot be used now: {error}") from error
        raise BadIndex(
            f"the corpus in {folder} is damaged: {error}; restore it from a backup, "
            "or index again with `chorale index --rebuild`"
        ) from error
    except UnicodeEncodeError as error:
        raise InvalidAnswer(f"a text has characters that cannot be encoded: {error}") from error
    except OSError as error:
        raise StoreUnavailable(f"the corpus in {folder} cannot be used: {error}") from error
