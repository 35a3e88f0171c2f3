"""Whoever opens the documents' database first upgrades its schema."""

from __future__ import annotations

from sqlalchemy import Engine, MetaData, text

from models.document_tables import documents_metadata
from models.errors import BadIndex
from models.near_duplicate_tables import near_duplicates_metadata
from search.several_stores.database import SCHEMA
from tests.contracts.schema import SchemaContract

DECLARED = MetaData()
for table in (*documents_metadata.sorted_tables, *near_duplicates_metadata.sorted_tables):
    table.to_metadata(DECLARED)


class TestDocumentsSchema(SchemaContract):
    what = "documents"
    schema = SCHEMA
    declared = DECLARED
    a_table_in_the_middle = "chorale_stored_state"
    refusal = BadIndex

    def test_tables_from_before_schema_revisions_are_adopted(self, url: str, engine: Engine) -> None:
        DECLARED.create_all(engine)
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE chorale_stored_format (format INTEGER PRIMARY KEY)"))
            connection.execute(text("INSERT INTO chorale_stored_generation VALUES ('kept', 7)"))
        self.bring_up(url)
        assert self.differences(engine) == []
        with engine.connect() as connection:
            kept = connection.execute(text("SELECT name, generation FROM chorale_stored_generation")).all()
        assert kept == [("kept", 7)]
