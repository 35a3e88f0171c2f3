"""The index of each store by its name, instead of a state for each document and store.

Every store's index is built anew: the first run of indexing, or `chorale verify`, makes it from the documents.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_Key = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    for name in ("visible", "lexical"):
        op.drop_column("chorale_namespace", name)
    # A corpus of one embedded store never had these.
    for name in ("state", "mark", "rebuild"):
        op.execute(f"DROP TABLE IF EXISTS chorale_stored_{name}")
    # What stores still showed of the build before a rebuild.
    old = "SELECT namespace_id FROM chorale_namespace WHERE name LIKE '%.old'"
    groups = ("near_duplicates", *(f"near_duplicate_{name}" for name in ("group", "band", "member")))
    for name in (*groups, "passage", "document", "namespace"):
        op.execute(f"DELETE FROM chorale_{name} WHERE namespace_id IN ({old})")
    op.create_table(
        "chorale_index",
        sa.Column("namespace_id", _Key, nullable=False),
        sa.Column("store", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("is_shown", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("namespace_id", "store", "name"),
    )
    op.create_table(
        "chorale_refused",
        sa.Column("namespace_id", _Key, nullable=False),
        sa.Column("store", sa.Text, nullable=False),
        sa.Column("document_id", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("namespace_id", "store", "document_id"),
    )
