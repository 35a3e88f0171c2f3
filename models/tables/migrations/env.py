"""Run by Alembic: the revisions, inside the transaction and under the lock of whoever called `Schema.bring_up`."""

from alembic import context

context.configure(**context.config.attributes, transactional_ddl=True)
context.run_migrations()
