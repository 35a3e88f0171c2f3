"""What reading the documents' database costs, in steps of SQLite's machine."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import asdict

from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from models.tables.documents import documents_metadata
from search.documents import lookups
from tests.support.stores.several_stores import MANIFEST


def steps_of_a_page(namespaces: int) -> int:
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    with closing(sqlite3.connect(":memory:")) as rows:
        for table in documents_metadata.sorted_tables:
            rows.execute(str(CreateTable(table).compile(dialect=sqlite.dialect())))
            for index in table.indexes:
                rows.execute(str(CreateIndex(index).compile(dialect=sqlite.dialect())))
        rows.executemany(
            "INSERT INTO chorale_namespace (name, manifest, sequence) VALUES (?, ?, 1)",
            [(f"n{number:04}", json.dumps(asdict(MANIFEST))) for number in range(namespaces)],
        )
        rows.set_progress_handler(count, 1)
        page = lookups.namespaces(rows, after="n0004", limit=10)
    assert [state.name for state in page] == [f"n{number:04}" for number in range(5, 15)]
    return steps


def test_a_page_of_namespaces_costs_the_same_however_many_there_are() -> None:
    assert steps_of_a_page(2_000) < 1.2 * steps_of_a_page(20)
