"""The SQL rows of the rules of namespaces, in the database of the audit trail: one row for each change."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Column, Integer, MetaData, Table, Text

rules_metadata = MetaData()

rule_table = Table(
    "chorale_rules",
    rules_metadata,
    Column("namespace", Text, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),  # the highest one holds
    Column("changed_at_ms", BigInteger, nullable=False),
    Column("changed_by", Text, nullable=False),
    Column("rules", JSON, nullable=False),
)
