"""The SQL tables of near-duplicate groups, in the database that holds the documents.

`namespace_id` is the namespace's id in that database; a namespace that is being rebuilt has rows of its own.
"""

from __future__ import annotations

import sqlalchemy as sa

near_duplicates_metadata = sa.MetaData()

_Key = sa.BigInteger().with_variant(sa.Integer, "sqlite")

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
