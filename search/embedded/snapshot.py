"""A copy of the corpus while it is read and written, and a corpus made from such a copy.

Only the truth is copied, in one read transaction; the lexical indexes derive from it and are built anew.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from models.documents import NamespaceState
from models.errors import BadIndex
from search.embedded.connections import connected, corpus_file, format_of, translated
from search.embedded.corpus import Corpus
from search.embedded.lookups import namespaces
from search.embedded.transactions import Transactions
from search.embedded.writer import CorpusWriter

_BEYOND = """
    INSERT INTO chorale_generation (name, generation) VALUES (?, ?)
    ON CONFLICT (name) DO UPDATE SET generation = max(generation, excluded.generation)
"""


@contextmanager
def still_corpus(folder: Path) -> Iterator[sqlite3.Connection]:
    """A connection that sees the corpus as it is now, for as long as it is open.  Raises BadIndex for a damaged one."""
    with translated(folder):
        Corpus(folder).set_up()
    with translated(folder), closing(connected(folder)) as connection:
        connection.execute("BEGIN")
        # A transaction sees the moment of its first read.
        connection.execute("SELECT count(*) FROM sqlite_schema")
        yield connection


def copy_corpus(source: sqlite3.Connection, folder: Path, to: Path) -> list[NamespaceState]:
    """Write `to`, a whole `corpus.db`, from the connection to the one in `folder`; returns what is in it.

    Raises BadIndex for a damaged one.
    """
    with translated(folder), closing(sqlite3.connect(to)) as target:
        # All pages in one step: in several, every write in between would begin the copy anew.
        source.backup(target)
        if (said := target.execute("PRAGMA quick_check").fetchone()[0]) != "ok":
            raise BadIndex(f"the corpus in {folder} is damaged ({said}); index again into another folder")
        return namespaces(target)


def generations(folder: Path) -> dict[str, int]:
    """By name, also those of namespaces that were dropped; empty where there is no corpus."""
    if not corpus_file(folder).exists():
        return {}
    with translated(folder), closing(connected(folder)) as connection:
        if format_of(connection, folder) == 0:
            return {}
        return dict(connection.execute("SELECT name, generation FROM chorale_generation"))


def corpus_from(copy: Path, folder: Path, *, after: Mapping[str, int]) -> dict[str, int]:
    """Make the corpus of a copy in the empty `folder`; returns the generations of its namespaces.

    They are beyond those of `after`, by name: no answer that was cached before may count again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(copy, corpus_file(folder))
    corpus = Corpus(folder)
    writer, transactions = CorpusWriter(corpus, wait_s=0), Transactions(folder)
    try:
        with corpus.reading() as connection:
            names = [state.name for state in namespaces(connection)]
        with transactions.writing(wait_s=0) as writing:
            for name, generation in after.items():
                writing.exec_driver_sql(_BEYOND, (name, generation + 1))
        return {name: writer.rebuild_lexical(name) for name in names}
    finally:
        writer.close()
        transactions.close()
        corpus.close()
