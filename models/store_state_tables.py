"""The SQL rows that say which store shows which document of the documents' database.

The documents are in the tables of `models.document_tables`, as in the embedded store, each with the `sequence` of the batch
that brought or ended it.  A store shows a document if the store's state is `written` with that sequence; with no state, or
an older sequence, the store must still be written.  What was replaced or deleted stays until every store has done so.
"""

from __future__ import annotations

import sqlalchemy as sa

store_state_metadata = sa.MetaData()

_Key = sa.BigInteger().with_variant(sa.Integer, "sqlite")

state_table = sa.Table(
    "chorale_stored_state",
    store_state_metadata,
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
    store_state_metadata,
    # The store shows every document up to this sequence, so these need not be checked again.
    sa.Column("namespace_id", _Key, nullable=False),
    sa.Column("store", sa.Text, nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("namespace_id", "store"),
)

rebuild_table = sa.Table(
    "chorale_stored_rebuild",
    store_state_metadata,
    # Stores that still show the namespace as it was before its rebuild.
    sa.Column("namespace_id", _Key, nullable=False),
    sa.Column("store", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("namespace_id", "store"),
)
