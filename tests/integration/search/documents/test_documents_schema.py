"""Whoever opens the documents' database first upgrades its schema."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import MetaData

from models.errors import BadIndex, StoreUnavailable
from models.tables.documents import documents_metadata, near_duplicates_metadata
from search.documents.database import _SCHEMA_LOCK, SCHEMA
from search.documents.document_table import DocumentTable
from search.documents.file_reading import VERSION_TABLE
from tests.contracts.schema import SchemaContract

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

    def test_a_process_that_starts_while_another_makes_the_tables_waits_longer_than_for_a_writer(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Workers start at once, and on a busy machine making the tables takes seconds."""
        with (
            closing(DocumentTable(url)) as maker,
            closing(DocumentTable(url, writer_wait_s=0)) as starting,
            ThreadPoolExecutor(1) as thread,
        ):
            with maker.exclusive(_SCHEMA_LOCK):
                waiting = thread.submit(starting.namespaces)
                with pytest.raises(TimeoutError):
                    waiting.result(0.5)
            assert waiting.result(30) == []
        monkeypatch.setattr("search.documents.database._SCHEMA_WAIT_S", 0.0)
        with (
            closing(DocumentTable(url)) as maker,
            closing(DocumentTable(url)) as starting,
            ThreadPoolExecutor(1) as thread,
            maker.exclusive(_SCHEMA_LOCK),
            pytest.raises(StoreUnavailable, match="another process makes or upgrades the tables"),
        ):
            thread.submit(starting.namespaces).result(30)


def test_a_rebuild_does_not_take_the_file_of_a_newer_version_for_a_damaged_one(tmp_path: Path) -> None:
    file = tmp_path / "corpus.db"
    with closing(DocumentTable(file)) as table:
        table.prepare()
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    with closing(DocumentTable(file)) as table:
        assert table.set_aside() is None
        with pytest.raises(BadIndex, match="schema 9999"):
            table.namespaces()
