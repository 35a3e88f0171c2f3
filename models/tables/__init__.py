"""The SQL tables: audit trail, documents, and what an installation keeps; Alembic brings their schemas up to date."""
