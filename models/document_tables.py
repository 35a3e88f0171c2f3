"""The SQL tables of documents: namespaces, documents, passages with their texts and vectors.  Every index is built from them.

A row is valid from its `sequence` (the batch that inserted it) until `ended` (the batch that replaced or deleted it).
`chorale_namespace.sequence` is the last committed batch, `visible` the last one that every index contains.  A reader
sees the rows with `sequence <= visible` that had not `ended` by then, so a batch appears whole, in all branches at
once, or not at all.
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
    sa.Column("visible", sa.BigInteger, nullable=False),
    sa.Column("lexical", sa.Text, nullable=False),  # the folder of its lexical index
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
    sa.Column("vector", sa.LargeBinary),  # float32, little-endian; empty once ended
    sa.Index("chorale_passage_sequence", "namespace_id", "sequence", "ended"),
    sa.Index("chorale_passage_ended", "namespace_id", "ended"),
    sa.Index("chorale_passage_name", "namespace_id", "passage_id"),
    sa.Index("chorale_passage_document", "namespace_id", "document_id"),
    sqlite_autoincrement=True,
)
