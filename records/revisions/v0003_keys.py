"""API keys."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "chorale_key",
        sa.Column("key_id", sa.Text, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("hashed", "name", "tenant")),
        sa.Column("namespaces", sa.JSON),
        *(sa.Column(name, sa.JSON, nullable=False) for name in ("scopes", "filters")),
        *(sa.Column(name, sa.Integer) for name in ("max_top_k", "max_depth", "max_questions")),
        sa.Column("max_timeout_s", sa.Double),
        sa.Column("requests_per_minute", sa.Integer),
        sa.Column("weight", sa.Double, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        *(sa.Column(name, sa.BigInteger) for name in ("expires_at_ms", "revoked_at_ms", "used_at_ms")),
        sa.PrimaryKeyConstraint("key_id", name="pk_chorale_key"),
        sa.Index("ix_chorale_key_tenant", "tenant"),
    )
