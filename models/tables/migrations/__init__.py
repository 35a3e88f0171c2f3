"""Alembic's environment of all our schemas; `models.tables.schema.Schema` runs it."""
