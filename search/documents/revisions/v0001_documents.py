"""Namespaces, documents, what each store shows of them, near-duplicates."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_Key = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "chorale_stored_generation",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("generation", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "chorale_stored_namespace",
        sa.Column("namespace_id", _Key, primary_key=True, autoincrement=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("is_current", sa.Boolean, nullable=False),
        sa.Column("manifest", sa.JSON, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("name", "is_current"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "chorale_stored_document",
        _namespace_id(),
        sa.Column("document_id", sa.Text, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("is_deleted", sa.Boolean, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("revision", sa.Text, nullable=False),
        sa.Column("content_hash", sa.Text, nullable=False),
        sa.Column("near_duplicate_group", sa.Text),
        sa.Column("passage_ids", sa.JSON, nullable=False),
        sa.Column("passages", sa.Integer, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("vectors", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("namespace_id", "document_id"),
        sa.Index("chorale_stored_document_source", "namespace_id", "source"),
        sa.Index("chorale_stored_document_sequence", "namespace_id", "sequence"),
    )
    op.create_table(
        "chorale_stored_state",
        _namespace_id(),
        sa.Column("store", sa.Text, nullable=False),
        sa.Column("document_id", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("namespace_id", "store", "document_id"),
    )
    op.create_table(
        "chorale_stored_mark",
        _namespace_id(),
        sa.Column("store", sa.Text, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("namespace_id", "store"),
    )
    op.create_table(
        "chorale_stored_rebuild",
        _namespace_id(),
        sa.Column("store", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("namespace_id", "store"),
    )
    _create_near_duplicates()


def _create_near_duplicates() -> None:
    op.create_table(
        "chorale_near_duplicates",
        sa.Column("namespace_id", _Key, primary_key=True, autoincrement=False),
        sa.Column("settings", sa.Text, nullable=False),
    )
    op.create_table(
        "chorale_near_duplicate_group",
        _namespace_id(),
        sa.Column("group_id", _Key, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("signature", sa.LargeBinary, nullable=False),
        sa.Column("members", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("namespace_id", "group_id"),
        sa.UniqueConstraint("namespace_id", "name"),
    )
    op.create_table(
        "chorale_near_duplicate_band",
        _namespace_id(),
        sa.Column("band", sa.BigInteger, nullable=False),
        sa.Column("group_id", _Key, nullable=False),
        sa.PrimaryKeyConstraint("namespace_id", "band", "group_id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "chorale_near_duplicate_member",
        _namespace_id(),
        sa.Column("document_id", sa.Text, nullable=False),
        sa.Column("group_id", _Key, nullable=False),
        sa.PrimaryKeyConstraint("namespace_id", "document_id"),
        sqlite_with_rowid=False,
    )


def _namespace_id() -> sa.Column[int]:
    return sa.Column("namespace_id", _Key, nullable=False)
