"""The SQL tables of the embedded store: namespaces, documents, passages, vectors.  Every index is built from them.

A row is valid from its `sequence` (the batch that inserted it) until `ended` (the batch that replaced or deleted it).
`chorale_namespace.sequence` is the last committed batch, `visible` the last one that every index contains.  A reader
sees the rows with `sequence <= visible` that had not `ended` by then, so a batch appears whole, in all branches at
once, or not at all.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
)

corpus_metadata = MetaData()

_Key = BigInteger().with_variant(Integer, "sqlite")

generation_table = Table(
    "chorale_generation",
    corpus_metadata,
    Column("name", Text, primary_key=True),
    # The row outlives the namespace: a namespace that is dropped and created again must not repeat a generation, or a
    # cache would return answers from the old documents.
    Column("generation", BigInteger, nullable=False),
)

namespace_table = Table(
    "chorale_namespace",
    corpus_metadata,
    Column("namespace_id", _Key, primary_key=True, autoincrement=True),
    Column("name", Text, nullable=False, unique=True),
    Column("manifest", JSON, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("visible", BigInteger, nullable=False),
    Column("lexical", Text, nullable=False),  # the folder of its lexical index
    sqlite_autoincrement=True,
)

document_table = Table(
    "chorale_document",
    corpus_metadata,
    Column("namespace_id", _Key, nullable=False),
    Column("document_id", Text, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("ended", BigInteger),
    Column("source", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("metadata", JSON, nullable=False),
    Column("content_hash", Text, nullable=False),
    Column("near_duplicate_group", Text),
    Column("revision", Text, nullable=False),
    PrimaryKeyConstraint("namespace_id", "document_id", "sequence"),
    Index("chorale_document_sequence", "namespace_id", "sequence", "ended"),
    Index("chorale_document_ended", "namespace_id", "ended"),
    Index("chorale_document_source", "namespace_id", "source"),
)

passage_table = Table(
    "chorale_passage",
    corpus_metadata,
    # Never reused, and rising with the sequence within a namespace: matrices are ordered by it.
    Column("rid", _Key, primary_key=True, autoincrement=True),
    Column("namespace_id", _Key, nullable=False),
    Column("passage_id", Text, nullable=False),
    Column("document_id", Text, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("ended", BigInteger),
    Column("position", Integer, nullable=False),
    Column("heading", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("start", Integer, nullable=False),
    Column("end", Integer, nullable=False),
    Column("vector", LargeBinary),  # float32, little-endian; empty once ended
    Index("chorale_passage_sequence", "namespace_id", "sequence", "ended"),
    Index("chorale_passage_ended", "namespace_id", "ended"),
    Index("chorale_passage_name", "namespace_id", "passage_id"),
    Index("chorale_passage_document", "namespace_id", "document_id"),
    sqlite_autoincrement=True,
)
