"""Whoever opens the documents' database first upgrades its schema."""

from __future__ import annotations

import json
import shutil
import zlib
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from sqlalchemy import Engine, MetaData, text

from models.document_tables import documents_metadata
from models.errors import BadIndex
from models.near_duplicate_tables import near_duplicates_metadata
from models.store_state_tables import store_state_metadata
from search.documents.database import SCHEMA, Database
from search.documents.document_table import NEXT, Change, DocumentTable
from tests.contracts.schema import SchemaContract
from tests.support.stores.several_stores import MANIFEST, NS, a_document

DECLARED = MetaData()
for table in (
    *documents_metadata.sorted_tables,
    *store_state_metadata.sorted_tables,
    *near_duplicates_metadata.sorted_tables,
):
    table.to_metadata(DECLARED)


class TestDocumentsSchema(SchemaContract):
    what = "documents"
    schema = SCHEMA
    declared = DECLARED
    a_table_in_the_middle = "chorale_stored_state"
    refusal = BadIndex

    def test_the_documents_of_the_first_schema_are_kept(
        self, url: str, engine: Engine, tmp_path: Path
    ) -> None:
        (tmp_path / "first").mkdir()
        shutil.copy(SCHEMA.revisions / "v0001_documents.py", tmp_path / "first")
        document = a_document("a", "rent \0", passages=3)
        second = replace(document.passages[1], vector=None)
        document = replace(document, passages=(document.passages[0], second, document.passages[2]))
        with engine.begin() as connection:
            replace(SCHEMA, newest="0001", revisions=tmp_path / "first").bring_up(connection)
            passages = [
                [
                    one.passage_id,
                    one.position,
                    one.text,
                    one.heading,
                    one.start,
                    one.end,
                    one.vector is not None,
                ]
                for one in document.passages
            ]
            content = json.dumps([document.title, document.metadata, passages])
            vectors = [
                np.asarray(one.vector, "<f4").tobytes() for one in document.passages if one.vector is not None
            ]
            of_document = {
                "source": "tests",
                "revision": "1",
                "content_hash": "hash 6",
                "near": "first",
                "ids": "[]",
            }
            rows = [
                {
                    "n": 1,
                    "id": "a",
                    "s": 3,
                    "gone": False,
                    "c": zlib.compress(content.encode()),
                    "v": b"".join(vectors),
                },
                {"n": 1, "id": "b", "s": 4, "gone": True, "c": b"", "v": b""},
            ]
            for statement, values in (
                ("INSERT INTO chorale_stored_generation VALUES ('law', 7)", [{}]),
                (
                    "INSERT INTO chorale_stored_namespace VALUES (:n, 'law', :is_current, :manifest, 4)",
                    [
                        {"n": n, "is_current": n == 1, "manifest": json.dumps(asdict(MANIFEST))}
                        for n in (1, 2)
                    ],
                ),
                (
                    "INSERT INTO chorale_stored_document VALUES "
                    "(:n, :id, :s, :gone, :source, :revision, :content_hash, :near, :ids, 3, :c, :v)",
                    [of_document | row for row in rows],
                ),
            ):
                connection.execute(text(statement), values)
        with closing(DocumentTable(Database(url))) as table:
            [state] = table.namespaces()
            assert (state.name, state.documents, state.passages, state.generation) == (NS, 1, 3, 7)
            build, begun = table.find(NS), table.find(NS, NEXT)
            assert build is not None
            assert begun is not None
            assert (build.namespace_id, build.manifest, begun.namespace_id) == (1, MANIFEST, 2)
            kept = replace(
                document,
                passages=tuple(
                    replace(one, text=one.text.replace("\0", "\ufffd")) for one in document.passages
                ),
            )
            changes = sorted(table.changes(build, ["a", "b"]), key=lambda one: one.document_id)
            assert repr(changes) == repr([Change("a", 3, kept), Change("b", 4, None)])
            with table.exclusive("later"):
                table.make("later", MANIFEST)
            later = table.find("later")
            assert later is not None
            assert later.namespace_id == 3
