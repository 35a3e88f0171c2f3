"""The rules of namespaces."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "chorale_rules",
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("changed_at_ms", sa.BigInteger, nullable=False),
        sa.Column("changed_by", sa.Text, nullable=False),
        sa.Column("rules", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("namespace", "version", name="pk_chorale_rules"),
    )
