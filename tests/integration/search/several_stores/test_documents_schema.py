"""Whoever opens the documents' database first upgrades its schema."""

from __future__ import annotations

from sqlalchemy import MetaData

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
