"""The SQL rows of API keys, in the database of the audit trail."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Column, Double, Index, Integer, MetaData, Table, Text

keys_metadata = MetaData()

key_table = Table(
    "chorale_key",
    keys_metadata,
    Column("key_id", Text, primary_key=True),
    Column("hashed", Text, nullable=False),  # SHA-256 of the secret, which is nowhere stored
    Column("name", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("namespaces", JSON(none_as_null=True)),  # NULL: every namespace
    Column("scopes", JSON, nullable=False),
    Column("filters", JSON, nullable=False),
    Column("max_top_k", Integer),
    Column("max_depth", Integer),
    Column("max_questions", Integer),
    Column("max_timeout_s", Double),
    Column("requests_per_minute", Integer),
    Column("weight", Double, nullable=False),
    # Milliseconds since 1970.
    Column("created_at_ms", BigInteger, nullable=False),
    Column("expires_at_ms", BigInteger),
    Column("revoked_at_ms", BigInteger),
    Column("used_at_ms", BigInteger),  # to the minute
    Index("ix_chorale_key_tenant", "tenant"),
)
