"""The SQL rows of a clustered installation's documents: what every store is to show, and which of them does.

A document has the `sequence` of the batch that brought it.  A store shows the document if the store's state is `written`
with the same sequence; with no state, or an older sequence, the store must still be written.  A deleted document stays,
marked, until every store has deleted it.
"""

from __future__ import annotations

import sqlalchemy as sa

documents_metadata = sa.MetaData()

_Key = sa.BigInteger().with_variant(sa.Integer, "sqlite")

generation_table = sa.Table(
    "chorale_stored_generation",
    documents_metadata,
    sa.Column("name", sa.Text, primary_key=True),
    # The row outlives the namespace: no generation repeats, so no cached answer fits a new corpus.
    sa.Column("generation", sa.BigInteger, nullable=False),
)

namespace_table = sa.Table(
    "chorale_stored_namespace",
    documents_metadata,
    sa.Column("namespace_id", _Key, primary_key=True, autoincrement=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column(
        "is_current", sa.Boolean, nullable=False
    ),  # False: a rebuild beside the namespace that is searched
    sa.Column("manifest", sa.JSON, nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("name", "is_current"),
    sqlite_autoincrement=True,
)

document_table = sa.Table(
    "chorale_stored_document",
    documents_metadata,
    sa.Column("namespace_id", _Key, nullable=False),
    sa.Column("document_id", sa.Text, nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("is_deleted", sa.Boolean, nullable=False),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("revision", sa.Text, nullable=False),
    sa.Column("content_hash", sa.Text, nullable=False),
    sa.Column("near_duplicate_group", sa.Text),
    sa.Column("passage_ids", sa.JSON, nullable=False),
    sa.Column("passages", sa.Integer, nullable=False),
    # Title, metadata and passages: search/several_stores/document_rows.py.
    sa.Column("content", sa.LargeBinary, nullable=False),
    sa.Column("vectors", sa.LargeBinary, nullable=False),  # float32, little-endian, one after the other
    sa.PrimaryKeyConstraint("namespace_id", "document_id"),
    sa.Index("chorale_stored_document_source", "namespace_id", "source"),
    sa.Index("chorale_stored_document_sequence", "namespace_id", "sequence"),
)

state_table = sa.Table(
    "chorale_stored_state",
    documents_metadata,
    sa.Column("namespace_id", _Key, nullable=False),
    sa.Column("store", sa.Text, nullable=False),
    sa.Column("document_id", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),  # written, failed
    sa.Column("reason", sa.Text, nullable=False),  # the reason of a failure, else empty
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("namespace_id", "store", "document_id"),
)

mark_table = sa.Table(
    "chorale_stored_mark",
    documents_metadata,
    # The store shows every document up to this sequence, so these need not be checked again.
    sa.Column("namespace_id", _Key, nullable=False),
    sa.Column("store", sa.Text, nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("namespace_id", "store"),
)

rebuild_table = sa.Table(
    "chorale_stored_rebuild",
    documents_metadata,
    # Stores that still show the namespace as it was before its rebuild.
    sa.Column("namespace_id", _Key, nullable=False),
    sa.Column("store", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("namespace_id", "store"),
)
