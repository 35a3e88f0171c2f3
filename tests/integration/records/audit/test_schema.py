"""The audit schema is upgraded once, and waiting for another process is limited."""

from __future__ import annotations

import pytest

from models.audit_tables import AuditTable
from models.errors import ServiceError
from models.installation_tables import installation_metadata
from models.schema import UnknownSchema
from records.database import SCHEMA, upgrade
from tests.contracts.schema import SchemaContract
from tests.support.servers.database_process import line_of, started


class TestAuditSchema(SchemaContract):
    what = "audit"
    schema = SCHEMA
    declared = (AuditTable.metadata, installation_metadata)
    a_table_in_the_middle = "chorale_branch"
    refusal = UnknownSchema


def test_waiting_for_another_process_is_bounded(database_url: str) -> None:
    with started("hold_schema", database_url) as process:
        assert line_of(process) == "locked"
        with pytest.raises(ServiceError, match="another process"):
            upgrade(database_url, wait_s=0.2)
    upgrade(database_url, wait_s=10)
