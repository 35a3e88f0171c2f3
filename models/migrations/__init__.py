"""Alembic's environment of every schema of ours; `models.schema.Schema` runs it."""
