"""Run by Alembic: the revisions, inside the transaction and under the lock of `audit.schema.upgrade`."""

from alembic import context

from audit.schema import VERSION_TABLE
from models.audit_tables import AuditTable

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=AuditTable.metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=True,
)
context.run_migrations()
