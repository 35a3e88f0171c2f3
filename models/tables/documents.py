"""The SQL tables of documents: namespaces, documents, passages with their texts and vectors, and the indexes made of them.

A row is valid from its `sequence` (the batch that inserted it) until `ended` (the batch that replaced or deleted it).
`chorale_namespace.sequence` is the last committed batch, and `chorale_index.sequence` the last one that a store's index
contains: the store shows what was valid then, so a batch appears whole or not at all.  What every store has replaced
loses its texts and vectors at once, and its row later.
"""

from __future__ import annotations

import sqlalchemy as sa

documents_metadata = sa.MetaData()

_Key = sa.BigInteger().with_variant(sa.Integer, "sqlite")

generation_table = sa.Table(
    "chorale_generation",
    documents_metadata,
    sa.Column("name", sa.Text, primary_key=True),
    # The row outlives the namespace: a namespace that is dropped and created again must not repeat a generation, or a
    # cache would return answers from the old documents.
    sa.Column("generation", sa.BigInteger, nullable=False),
)

namespace_table = sa.Table(
    "chorale_namespace",
    documents_metadata,
    sa.Column("namespace_id", _Key, primary_key=True, autoincrement=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("manifest", sa.JSON, nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sqlite_autoincrement=True,
)

document_table = sa.Table(
    "chorale_document",
    documents_metadata,
    sa.Column("namespace_id", _Key, nullable=False),
    sa.Column("document_id", sa.Text, nullable=False),
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

passage_table = sa.Table(
    "chorale_passage",
    documents_metadata,
    # Never reused, and rising with the sequence within a namespace: matrices are ordered by it.
    sa.Column("rid", _Key, primary_key=True, autoincrement=True),
    sa.Column("namespace_id", _Key, nullable=False),
    sa.Column("passage_id", sa.Text, nullable=False),
    sa.Column("document_id", sa.Text, nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("ended", sa.BigInteger),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("heading", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("start", sa.Integer, nullable=False),
    sa.Column("end", sa.Integer, nullable=False),
    sa.Column("pages", sa.Text),  # none in rows of versions that knew no pages
    sa.Column("vector", sa.LargeBinary),  # float32, little-endian; empty once every store has replaced it
    sa.Index("chorale_passage_sequence", "namespace_id", "sequence", "ended"),
    sa.Index("chorale_passage_ended", "namespace_id", "ended"),
    sa.Index("chorale_passage_name", "namespace_id", "passage_id"),
    sa.Index("chorale_passage_document", "namespace_id", "document_id"),
    sqlite_autoincrement=True,
)

index_table = sa.Table(
    "chorale_index",
    documents_metadata,
    sa.Column("namespace_id", _Key, nullable=False),
    sa.Column("store", sa.Text, nullable=False),
    # Its name in the store; a later one sorts after it.
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    # Otherwise it is being built.
    sa.Column("is_shown", sa.Boolean, nullable=False),
    sa.PrimaryKeyConstraint("namespace_id", "store", "name"),
)

refused_table = sa.Table(
    "chorale_refused",
    documents_metadata,
    # What a store's index lacks of the batches that it contains.
    sa.Column("namespace_id", _Key, nullable=False),
    sa.Column("store", sa.Text, nullable=False),
    sa.Column("document_id", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("namespace_id", "store", "document_id"),
)


near_duplicates_metadata = sa.MetaData()
"""The groups of near-duplicates.  A namespace that is being rebuilt has rows of its own."""

settings_table = sa.Table(
    "chorale_near_duplicates",
    near_duplicates_metadata,
    sa.Column("namespace_id", _Key, primary_key=True, autoincrement=False),
    # Groups that were made with other settings are deleted.
    sa.Column("settings", sa.Text, nullable=False),
)

group_table = sa.Table(
    "chorale_near_duplicate_group",
    near_duplicates_metadata,
    sa.Column("namespace_id", _Key, nullable=False),
    sa.Column("group_id", _Key, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("signature", sa.LargeBinary, nullable=False),  # of its first text: uint32, little-endian
    sa.Column("members", sa.Integer, nullable=False),
    sa.PrimaryKeyConstraint("namespace_id", "group_id"),
    sa.UniqueConstraint("namespace_id", "name"),
)

band_table = sa.Table(
    "chorale_near_duplicate_band",
    near_duplicates_metadata,
    # A hash of each part of a group's signature; near-duplicates have at least one in common.
    sa.Column("namespace_id", _Key, nullable=False),
    sa.Column("band", sa.BigInteger, nullable=False),
    sa.Column("group_id", _Key, nullable=False),
    sa.PrimaryKeyConstraint("namespace_id", "band", "group_id"),
    sqlite_with_rowid=False,
)

member_table = sa.Table(
    "chorale_near_duplicate_member",
    near_duplicates_metadata,
    sa.Column("namespace_id", _Key, nullable=False),
    sa.Column("document_id", sa.Text, nullable=False),
    sa.Column("group_id", _Key, nullable=False),
    sa.PrimaryKeyConstraint("namespace_id", "document_id"),
    sqlite_with_rowid=False,
)
