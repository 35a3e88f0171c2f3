"""Alembic's environment of all our schemas; `models.schema.Schema` runs it."""
