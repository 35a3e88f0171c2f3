"""The first schema: namespaces, documents, passages, near-duplicates, and the indexes that stores have made of them."""

revision = "0.1.0"
down_revision = None


def upgrade() -> None:
    """This revision changes nothing: no database is older, and a new database gets the declared tables (`models.tables.schema`)."""
