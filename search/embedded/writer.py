"""Writing: every batch goes into the truth, then into the lexical index, then becomes visible.

1. One transaction writes documents and passages with the next sequence; what they replace is marked as ended by it.
2. tantivy indexes the batch's passages, read back from the truth, in a durable commit.
3. One transaction raises `visible` and the generation, and clears what ended.

A crash after 1 or 2 leaves `visible` behind `sequence`.  `settle` then repeats 2 and 3, exactly as for every batch.
"""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict

from sqlalchemy import Connection, delete, insert, update

from models.document_tables import document_table, namespace_table, passage_table
from models.documents import Document, Manifest
from models.near_duplicate_tables import near_duplicates_metadata
from search.analysis import indexed_text
from search.checks import check_manifest, checked_documents, same_manifest
from search.documents.document_rows import end_documents, insert_documents
from search.embedded.corpus import Corpus, Pulse
from search.embedded.lexical_index import check_index, create_index, write_index
from search.embedded.passage_rows import TOMBSTONE_BATCHES
from search.embedded.transactions import Transactions
from search.near_duplicate_rows import NearDuplicateRows
from search.writer_lock import WriterLock

_SQL_WAIT_S = 30.0
"""Time to wait for other namespaces' batches: SQLite runs one writing transaction at a time."""

_PER_NAMESPACE = (
    passage_table,
    document_table,
    namespace_table,
    *near_duplicates_metadata.sorted_tables,
)

_TO_INDEX = """
    SELECT p.rid, d.title, p.heading, p.text FROM chorale_passage p JOIN chorale_document d
    ON d.namespace_id = p.namespace_id AND d.document_id = p.document_id AND d.sequence = p.sequence
    WHERE p.namespace_id = ? AND p.sequence > ? AND +p.ended IS NULL ORDER BY p.rid
"""
_TOUCHED = """
    SELECT rid FROM chorale_passage WHERE namespace_id = ? AND sequence > ?
    UNION SELECT rid FROM chorale_passage WHERE namespace_id = ? AND ended > ?
"""
_RAISE = """
    INSERT INTO chorale_generation (name, generation) VALUES (?, 1)
    ON CONFLICT (name) DO UPDATE SET generation = generation + 1
"""

_RAISE_TO = """
    INSERT INTO chorale_generation (name, generation) VALUES (?, ?)
    ON CONFLICT (name) DO UPDATE SET generation = max(generation, excluded.generation)
"""


class CorpusWriter:
    """Writes batches into the namespaces of one folder; each namespace has its own lock."""

    def __init__(self, corpus: Corpus, *, wait_s: float) -> None:
        self._corpus = corpus
        self._transactions = Transactions(corpus.folder)
        self._wait_s = wait_s
        self._locks: dict[str, WriterLock] = {}
        self._locking = threading.Lock()

    def exclusive(self, namespace: str, *, wait_s: float | None = None) -> AbstractContextManager[None]:
        """Hold the namespace against other writers; raises WriterBusy."""
        with self._locking:
            if namespace not in self._locks:
                path = self._corpus.folder / "locks" / f"{namespace}.lock"
                self._locks[namespace] = WriterLock(path, f"namespace {namespace!r}")
            lock = self._locks[namespace]
        return lock.held(wait_s=self._wait_s if wait_s is None else wait_s)

    def close(self) -> None:
        self._transactions.close()

    def create(self, namespace: str, manifest: Manifest) -> Manifest:
        check_manifest(namespace, manifest)
        if (pulse := self._corpus.pulse(namespace)) is not None:
            return same_manifest(namespace, pulse.manifest, manifest)
        with self.exclusive(namespace):
            if (pulse := self._corpus.pulse(namespace)) is not None:
                return same_manifest(namespace, pulse.manifest, manifest)
            with self._transactions.writing(wait_s=_SQL_WAIT_S) as connection:
                row = {
                    "name": namespace,
                    "manifest": asdict(manifest),
                    "sequence": 0,
                    "visible": 0,
                    "lexical": "",
                }
                inserted = connection.execute(insert(namespace_table).values(row)).inserted_primary_key
                assert inserted is not None
                lexical = f"{namespace}.{inserted[0]}.0"
                create_index(self._corpus.lexical_folder(lexical))
                _set(connection, inserted[0], lexical=lexical)
            self._sweep(namespace, keep=lexical)
        return manifest

    def upsert(self, namespace: str, documents: Sequence[Document]) -> int:
        with self._writing(namespace) as pulse:
            chosen = checked_documents(documents, pulse.manifest)
            if not chosen:
                return pulse.generation
            check_index(self._corpus.lexical_folder(pulse.lexical))
            with self._transactions.writing(wait_s=_SQL_WAIT_S) as connection:
                sequence = pulse.sequence + 1
                end_documents(
                    connection, pulse.namespace_id, sequence, [document.document_id for document in chosen]
                )
                insert_documents(connection, pulse.namespace_id, sequence, chosen)
                _set(connection, pulse.namespace_id, sequence=sequence)
            return self.settle(namespace).generation

    def delete(self, namespace: str, document_ids: Iterable[str]) -> int:
        with self._writing(namespace) as pulse:
            check_index(self._corpus.lexical_folder(pulse.lexical))
            with self._transactions.writing(wait_s=_SQL_WAIT_S) as connection:
                sequence = pulse.sequence + 1
                ended = end_documents(connection, pulse.namespace_id, sequence, sorted(set(document_ids)))
                if ended:
                    _set(connection, pulse.namespace_id, sequence=sequence)
            self.settle(namespace)
            return ended

    def drop(self, namespace: str) -> bool:
        if self._corpus.pulse(namespace) is None:
            return False
        with self.exclusive(namespace):
            pulse = self._corpus.pulse(namespace)
            if pulse is not None:
                with self._transactions.writing(wait_s=_SQL_WAIT_S) as connection:
                    for table in _PER_NAMESPACE:
                        of_it = table.c.namespace_id == pulse.namespace_id
                        connection.execute(delete(table).where(of_it))
                    connection.exec_driver_sql(_RAISE, (namespace,))
            self._sweep(namespace, keep=None)
        return pulse is not None

    @contextmanager
    def near_duplicate_rows(self, namespace: str) -> Iterator[NearDuplicateRows]:
        with self.exclusive(namespace):
            pulse = self._corpus.known(namespace)
            with self._transactions.writing(wait_s=_SQL_WAIT_S) as connection:
                yield NearDuplicateRows(connection, pulse.namespace_id)

    def raise_generation(self, namespace: str, least: int) -> None:
        with self.exclusive(namespace), self._transactions.writing(wait_s=_SQL_WAIT_S) as connection:
            connection.exec_driver_sql(_RAISE_TO, (namespace, least))

    def settle(self, namespace: str, *, sql_wait_s: float = _SQL_WAIT_S) -> Pulse:
        """Make every committed batch visible; the caller holds the namespace."""
        pulse = self._corpus.known(namespace)
        if not pulse.is_behind:
            return pulse
        touched = (pulse.namespace_id, pulse.visible, pulse.namespace_id, pulse.visible)
        with self._corpus.reading() as connection:
            gone = [row[0] for row in connection.execute(_TOUCHED, touched)]
            self._index(connection, pulse, pulse.lexical, since=pulse.visible, gone=gone)
        with self._transactions.writing(wait_s=sql_wait_s) as connection:
            _show(connection, namespace, pulse)
        return self._corpus.known(namespace)

    def rebuild_lexical(self, namespace: str) -> int:
        """Rebuild the lexical index from the truth while searches go on; returns the generation."""
        with self.exclusive(namespace):
            pulse = self._corpus.known(namespace)
            stem, build = pulse.lexical.rsplit(".", 1)
            lexical = f"{stem}.{int(build) + 1}"
            create_index(self._corpus.lexical_folder(lexical))
            with self._corpus.reading() as connection:
                self._index(connection, pulse, lexical, since=0, gone=())
            with self._transactions.writing(wait_s=_SQL_WAIT_S) as connection:
                _set(connection, pulse.namespace_id, lexical=lexical)
                _show(connection, namespace, pulse)
            self._sweep(namespace, keep=lexical)
            return self._corpus.known(namespace).generation

    @contextmanager
    def _writing(self, namespace: str) -> Iterator[Pulse]:
        self._corpus.known(namespace)
        with self.exclusive(namespace):
            yield self.settle(namespace)

    def _index(
        self, connection: sqlite3.Connection, pulse: Pulse, lexical: str, *, since: int, gone: Sequence[int]
    ) -> None:
        manifest = pulse.manifest
        rows = connection.execute(_TO_INDEX, (pulse.namespace_id, since))
        texts = ((rid, indexed_text(title, heading, text, manifest)) for rid, title, heading, text in rows)
        write_index(self._corpus.lexical_folder(lexical), manifest.language, delete=gone, add=texts)

    def _sweep(self, namespace: str, *, keep: str | None) -> None:
        """Remove lexical folders that a rebuild, a drop or a crash left; open readers keep their files."""
        for folder in self._corpus.lexical_folder("").glob(f"{namespace}.*"):
            if folder.name != keep:
                shutil.rmtree(folder, ignore_errors=True)


def _show(connection: Connection, namespace: str, pulse: Pulse) -> None:
    _set(connection, pulse.namespace_id, visible=pulse.sequence)
    connection.exec_driver_sql(_RAISE, (namespace,))
    ended = passage_table.c.ended
    mine = passage_table.c.namespace_id == pulse.namespace_id
    just_ended = (ended > pulse.visible) & (ended <= pulse.sequence)
    connection.execute(update(passage_table).where(mine, just_ended).values(text="", heading="", vector=None))
    connection.execute(delete(passage_table).where(mine, ended <= pulse.sequence - TOMBSTONE_BATCHES))
    mine = document_table.c.namespace_id == pulse.namespace_id
    connection.execute(delete(document_table).where(mine, document_table.c.ended <= pulse.sequence))


def _set(connection: Connection, namespace_id: int, **values: int | str) -> None:
    of_it = namespace_table.c.namespace_id == namespace_id
    connection.execute(update(namespace_table).where(of_it).values(values))
