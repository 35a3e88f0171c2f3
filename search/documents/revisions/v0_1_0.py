"""The first schema: namespaces, documents, passages, near-duplicates, and the indexes that stores have made of them."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0.1.0"
down_revision = None

_Key = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    _create_documents()
    _create_near_duplicates()
    _create_indexes()


def _create_documents() -> None:
    op.create_table(
        "chorale_generation",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("generation", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "chorale_namespace",
        sa.Column("namespace_id", _Key, primary_key=True, autoincrement=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("manifest", sa.JSON, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "chorale_document",
        *_of_namespace("document_id"),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("ended", sa.BigInteger),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("metadata", sa.JSON, nullable=False),
        sa.Column("content_hash", sa.Text, nullable=False),
        sa.Column("near_duplicate_group", sa.Text),
        sa.Column("revision", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("namespace_id", "document_id", "sequence"),
        sa.Index("chorale_document_sequence", "namespace_id", "sequence", "ended"),
        sa.Index("chorale_document_ended", "namespace_id", "ended"),
        sa.Index("chorale_document_source", "namespace_id", "source"),
    )
    op.create_table(
        "chorale_passage",
        sa.Column("rid", _Key, primary_key=True, autoincrement=True),
        *_of_namespace("passage_id", "document_id"),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("ended", sa.BigInteger),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("heading", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("start", sa.Integer, nullable=False),
        sa.Column("end", sa.Integer, nullable=False),
        sa.Column("vector", sa.LargeBinary),
        sa.Column("pages", sa.Text),
        sa.Index("chorale_passage_sequence", "namespace_id", "sequence", "ended"),
        sa.Index("chorale_passage_ended", "namespace_id", "ended"),
        sa.Index("chorale_passage_name", "namespace_id", "passage_id"),
        sa.Index("chorale_passage_document", "namespace_id", "document_id"),
        sqlite_autoincrement=True,
    )


def _create_near_duplicates() -> None:
    op.create_table(
        "chorale_near_duplicates",
        sa.Column("namespace_id", _Key, primary_key=True, autoincrement=False),
        sa.Column("settings", sa.Text, nullable=False),
    )
    op.create_table(
        "chorale_near_duplicate_group",
        *_of_namespace(),
        sa.Column("group_id", _Key, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("signature", sa.LargeBinary, nullable=False),
        sa.Column("members", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("namespace_id", "group_id"),
        sa.UniqueConstraint("namespace_id", "name"),
    )
    op.create_table(
        "chorale_near_duplicate_band",
        *_of_namespace(),
        sa.Column("band", sa.BigInteger, nullable=False),
        sa.Column("group_id", _Key, nullable=False),
        sa.PrimaryKeyConstraint("namespace_id", "band", "group_id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "chorale_near_duplicate_member",
        *_of_namespace("document_id"),
        sa.Column("group_id", _Key, nullable=False),
        sa.PrimaryKeyConstraint("namespace_id", "document_id"),
        sqlite_with_rowid=False,
    )


def _create_indexes() -> None:
    op.create_table(
        "chorale_index",
        *_of_namespace("store", "name"),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("is_shown", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("namespace_id", "store", "name"),
    )
    op.create_table(
        "chorale_refused",
        *_of_namespace("store", "document_id", "reason"),
        sa.PrimaryKeyConstraint("namespace_id", "store", "document_id"),
    )


def _of_namespace(*names: str) -> list[sa.Column[Any]]:
    """The build of a namespace, and texts that are always there."""
    texts = [sa.Column(name, sa.Text, nullable=False) for name in names]
    return [sa.Column("namespace_id", _Key, nullable=False), *texts]
