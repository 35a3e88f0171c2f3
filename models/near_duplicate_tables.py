"""The SQL tables of near-duplicate groups, in the database that holds the documents.

`namespace_id` is the namespace's id in that database; a namespace that is being rebuilt has rows of its own.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)

near_duplicates_metadata = MetaData()

_Key = BigInteger().with_variant(Integer, "sqlite")

settings_table = Table(
    "chorale_near_duplicates",
    near_duplicates_metadata,
    Column("namespace_id", _Key, primary_key=True, autoincrement=False),
    Column(
        "settings", Text, nullable=False
    ),  # the settings that the groups were made with; groups of other settings are deleted
)

group_table = Table(
    "chorale_near_duplicate_group",
    near_duplicates_metadata,
    Column("namespace_id", _Key, nullable=False),
    Column("group_id", _Key, nullable=False),
    Column("name", Text, nullable=False),
    Column("signature", LargeBinary, nullable=False),  # of its first text: uint32, little-endian
    Column("members", Integer, nullable=False),
    PrimaryKeyConstraint("namespace_id", "group_id"),
    UniqueConstraint("namespace_id", "name"),
)

band_table = Table(
    "chorale_near_duplicate_band",
    near_duplicates_metadata,
    # A hash of each part of a group's signature; near-duplicates have at least one in common.
    Column("namespace_id", _Key, nullable=False),
    Column("band", BigInteger, nullable=False),
    Column("group_id", _Key, nullable=False),
    PrimaryKeyConstraint("namespace_id", "band", "group_id"),
    sqlite_with_rowid=False,
)

member_table = Table(
    "chorale_near_duplicate_member",
    near_duplicates_metadata,
    Column("namespace_id", _Key, nullable=False),
    Column("document_id", Text, nullable=False),
    Column("group_id", _Key, nullable=False),
    PrimaryKeyConstraint("namespace_id", "document_id"),
    sqlite_with_rowid=False,
)
