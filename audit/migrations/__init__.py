"""Alembic's environment of the audit tables; `audit.schema.upgrade` runs it."""
