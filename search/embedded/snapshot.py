"""Copying a corpus while it is read and written, and making a corpus from such a copy.

Only the truth is copied, in one read transaction; the lexical indexes are rebuilt from it.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from models.documents import NamespaceState
from search.documents.copying import copy_documents
from search.documents.lookups import namespaces
from search.embedded.connections import connected, corpus_file, format_of, translated
from search.embedded.corpus import Corpus
from search.embedded.writer import CorpusWriter


@contextmanager
def still_corpus(folder: Path) -> Iterator[sqlite3.Connection]:
    """A connection that sees the corpus as of now for as long as it is open.

    Raises BadIndex if the corpus is damaged.
    """
    with translated(folder):
        Corpus(folder).set_up()
    with translated(folder), closing(connected(folder)) as connection:
        connection.execute("BEGIN")
        # A transaction sees the moment of its first read.
        connection.execute("SELECT count(*) FROM sqlite_schema")
        yield connection


def copy_corpus(source: sqlite3.Connection, folder: Path, to: Path) -> list[NamespaceState]:
    """Write the corpus in `folder`, which `source` is connected to, to the file `to`; returns its namespaces.

    Raises BadIndex if the corpus is damaged.
    """
    with translated(folder):
        return copy_documents(source, to, f"the corpus in {folder}", "index again into another folder")


def generations(folder: Path) -> dict[str, int]:
    """Generations by name, also of dropped namespaces; empty if there is no corpus."""
    if not corpus_file(folder).exists():
        return {}
    with translated(folder), closing(connected(folder)) as connection:
        if format_of(connection, folder) == 0:
            return {}
        return dict(connection.execute("SELECT name, generation FROM chorale_generation"))


def corpus_from(copy: Path, folder: Path, *, after: Mapping[str, int]) -> dict[str, int]:
    """Make a corpus from a copy in the empty `folder`; returns the generations of its namespaces.

    They are higher than those of `after`, so that no answer cached before is used again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(copy, corpus_file(folder))
    corpus = Corpus(folder)
    with closing(corpus), closing(CorpusWriter(corpus, wait_s=0)) as writer:
        with corpus.reading() as connection:
            names = [state.name for state in namespaces(connection)]
        for name, generation in after.items():
            writer.raise_generation(name, generation + 1)
        return {name: writer.rebuild_lexical(name) for name in names}
