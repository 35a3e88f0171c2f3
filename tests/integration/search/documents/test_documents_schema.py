"""Whoever opens the documents' database first upgrades its schema."""

from __future__ import annotations

import json
import sqlite3
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Engine, MetaData, inspect, text

from models.document_tables import documents_metadata, near_duplicates_metadata
from models.errors import BadIndex, StoreUnavailable
from search.documents.database import _SCHEMA_LOCK, SCHEMA, Database
from search.documents.document_table import NEXT, Changes, DocumentTable
from search.documents.file_reading import VERSION_TABLE
from tests.contracts.schema import SchemaContract
from tests.support.stores.several_stores import MANIFEST, NS, a_document

DECLARED = MetaData()
for table in (
    *documents_metadata.sorted_tables,
    *near_duplicates_metadata.sorted_tables,
):
    table.to_metadata(DECLARED)


class TestDocumentsSchema(SchemaContract):
    what = "documents"
    schema = SCHEMA
    declared = DECLARED
    a_table_in_the_middle = "chorale_index"
    refusal = BadIndex

    def test_the_documents_of_several_stores_of_an_earlier_version_are_kept(
        self, url: str, engine: Engine
    ) -> None:
        document = a_document("a", "rent \0", passages=3)
        second = replace(document.passages[1], vector=None)
        document = replace(document, passages=(document.passages[0], second, document.passages[2]))
        passages = [
            [
                part.passage_id,
                part.position,
                part.text,
                part.heading,
                part.start,
                part.end,
                part is not second,
            ]
            for part in document.passages
        ]
        content = zlib.compress(json.dumps([document.title, document.metadata, passages]).encode())
        vectors = b"".join(
            np.asarray(part.vector, "<f4").tobytes() for part in document.passages if part.vector is not None
        )
        blob = "BYTEA" if url.startswith("postgresql") else "BLOB"
        manifest = json.dumps(asdict(MANIFEST))
        with engine.begin() as connection:
            for statement in (
                "CREATE TABLE chorale_stored_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)",
                "INSERT INTO chorale_stored_version VALUES ('0001')",
                "CREATE TABLE chorale_stored_generation (name TEXT PRIMARY KEY, generation BIGINT)",
                "INSERT INTO chorale_stored_generation VALUES ('law', 7)",
                "CREATE TABLE chorale_stored_namespace (namespace_id INTEGER PRIMARY KEY, name TEXT, "
                "is_current BOOLEAN, manifest JSON, sequence BIGINT)",
                "CREATE TABLE chorale_stored_document (namespace_id INTEGER, document_id TEXT, sequence BIGINT, "
                "is_deleted BOOLEAN, source TEXT, revision TEXT, content_hash TEXT, near_duplicate_group TEXT, "
                f"passage_ids JSON, passages INTEGER, content {blob}, vectors {blob})",
                "CREATE TABLE chorale_stored_state (store TEXT)",
            ):
                connection.execute(text(statement))
            connection.execute(
                text("INSERT INTO chorale_stored_namespace VALUES (:n, 'law', :is_current, :manifest, 4)"),
                [{"n": n, "is_current": n == 1, "manifest": manifest} for n in (1, 2)],
            )
            connection.execute(
                text(
                    "INSERT INTO chorale_stored_document VALUES (:n, :id, 3, :gone, 'tests', '1', 'hash 6', 'first', "
                    "'[]', 3, :c, :v)"
                ),
                [
                    {"n": n, "id": name, "gone": gone, "c": content, "v": vectors}
                    for n, name, gone in ((1, "a", False), (1, "b", True), (2, "begun", False))
                ],
            )
        with closing(DocumentTable(Database(url))) as table:
            [state] = table.namespaces()
            assert (state.name, state.documents, state.passages, state.generation) == (NS, 1, 3, 7)
            build = table.find(NS)
            assert build is not None
            assert (build.namespace_id, build.manifest, table.find(NS, NEXT)) == (1, MANIFEST, None)
            parts = [replace(part, text=part.text.replace("\0", "\ufffd")) for part in document.passages]
            [changes] = table.changes_since(build, 0)
            assert repr(changes) == repr(Changes(4, [replace(document, passages=tuple(parts))], []))
            with table.exclusive("later"):
                table.make("later", MANIFEST)
            later = table.find("later")
            assert later is not None
            assert later.namespace_id > 1
        assert not [name for name in inspect(engine).get_table_names() if name.startswith("chorale_stored_d")]

    def test_a_process_that_starts_while_another_makes_the_tables_waits_longer_than_for_a_writer(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Workers start at once, and on a busy machine making the tables takes seconds."""
        with (
            closing(DocumentTable(Database(url))) as maker,
            closing(DocumentTable(Database(url, writer_wait_s=0))) as starting,
            ThreadPoolExecutor(1) as thread,
        ):
            with maker.exclusive(_SCHEMA_LOCK):
                waiting = thread.submit(starting.namespaces)
                with pytest.raises(TimeoutError):
                    waiting.result(0.5)
            assert waiting.result(30) == []
        monkeypatch.setattr("search.documents.database._SCHEMA_WAIT_S", 0.0)
        with (
            closing(DocumentTable(Database(url))) as maker,
            closing(DocumentTable(Database(url))) as starting,
            ThreadPoolExecutor(1) as thread,
            maker.exclusive(_SCHEMA_LOCK),
            pytest.raises(StoreUnavailable, match="another process makes or upgrades the tables"),
        ):
            thread.submit(starting.namespaces).result(30)


def test_a_rebuild_does_not_take_the_file_of_a_newer_version_for_a_damaged_one(tmp_path: Path) -> None:
    file = tmp_path / "corpus.db"
    with closing(DocumentTable(Database(file))) as table:
        table.prepare()
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    with closing(DocumentTable(Database(file))) as table:
        assert table.set_aside() is None
        with pytest.raises(BadIndex, match="schema 9999"):
            table.namespaces()
