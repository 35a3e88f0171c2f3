"""The first schema: namespaces, documents, passages, near-duplicates, and the indexes that stores have made of them."""

revision = "0.1.0"
down_revision = None


def upgrade() -> None:
    """No database is older: a new one gets the declared tables (`models.schema`)."""
