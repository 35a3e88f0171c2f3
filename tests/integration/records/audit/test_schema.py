"""The audit schema is upgraded once, and waiting for another process is limited."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine

from models.errors import ServiceError
from models.tables.audit import AuditTable
from models.tables.installation import installation_metadata
from models.tables.schema import UnknownSchema
from records.database import LOCKS, SCHEMA, upgrade
from tests.contracts.schema import SchemaContract


class TestAuditSchema(SchemaContract):
    what = "audit"
    schema = SCHEMA
    declared = (AuditTable.metadata, installation_metadata)
    a_table_in_the_middle = "chorale_branch"
    refusal = UnknownSchema


def test_waiting_for_another_process_is_bounded(engine: Engine, database_url: str) -> None:
    with LOCKS[engine.dialect.name](engine, 10), pytest.raises(ServiceError, match="another process"):
        upgrade(database_url, wait_s=0.2)
    upgrade(database_url, wait_s=10)
