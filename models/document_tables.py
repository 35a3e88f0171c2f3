"""The SQL rows of a clustered installation's documents: what every store is to show, and which of them does.

A document has the `sequence` of the batch that brought it.  A store shows the document if the store's state is `written`
with the same sequence; with no state, or an older sequence, the store must still be written.  A deleted document stays,
marked, until every store has deleted it.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)

documents_metadata = MetaData()

_Key = BigInteger().with_variant(Integer, "sqlite")

generation_table = Table(
    "chorale_stored_generation",
    documents_metadata,
    Column("name", Text, primary_key=True),
    # The row outlives the namespace: no generation repeats, so no cached answer fits a new corpus.
    Column("generation", BigInteger, nullable=False),
)

namespace_table = Table(
    "chorale_stored_namespace",
    documents_metadata,
    Column("namespace_id", _Key, primary_key=True, autoincrement=True),
    Column("name", Text, nullable=False),
    Column("is_current", Boolean, nullable=False),  # False: a rebuild beside the namespace that is searched
    Column("manifest", JSON, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    UniqueConstraint("name", "is_current"),
    sqlite_autoincrement=True,
)

document_table = Table(
    "chorale_stored_document",
    documents_metadata,
    Column("namespace_id", _Key, nullable=False),
    Column("document_id", Text, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("is_deleted", Boolean, nullable=False),
    Column("source", Text, nullable=False),
    Column("revision", Text, nullable=False),
    Column("content_hash", Text, nullable=False),
    Column("near_duplicate_group", Text),
    Column("passage_ids", JSON, nullable=False),
    Column("passages", Integer, nullable=False),
    Column(
        "content", LargeBinary, nullable=False
    ),  # title, metadata and passages: search/several_stores/document_rows.py
    Column("vectors", LargeBinary, nullable=False),  # float32, little-endian, one after the other
    PrimaryKeyConstraint("namespace_id", "document_id"),
    Index("chorale_stored_document_source", "namespace_id", "source"),
    Index("chorale_stored_document_sequence", "namespace_id", "sequence"),
)

state_table = Table(
    "chorale_stored_state",
    documents_metadata,
    Column("namespace_id", _Key, nullable=False),
    Column("store", Text, nullable=False),
    Column("document_id", Text, nullable=False),
    Column("state", Text, nullable=False),  # written, failed
    Column("reason", Text, nullable=False),  # the reason of a failure, else empty
    Column("sequence", BigInteger, nullable=False),
    PrimaryKeyConstraint("namespace_id", "store", "document_id"),
)

mark_table = Table(
    "chorale_stored_mark",
    documents_metadata,
    # The store shows every document up to this sequence, so these need not be checked again.
    Column("namespace_id", _Key, nullable=False),
    Column("store", Text, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    PrimaryKeyConstraint("namespace_id", "store"),
)

rebuild_table = Table(
    "chorale_stored_rebuild",
    documents_metadata,
    # Stores that still show the namespace as it was before its rebuild.
    Column("namespace_id", _Key, nullable=False),
    Column("store", Text, nullable=False),
    PrimaryKeyConstraint("namespace_id", "store"),
)
