"""Bulk jobs and their segments."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_COUNTS = (
    *("segments", "total", "running", "complete", "degraded", "failed", "skipped", "refused", "expired"),
    *("cancelled", "deduplicated"),
)


def upgrade() -> None:
    op.create_table(
        "chorale_job",
        sa.Column("job_id", sa.Text, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("name", "namespace", "tenant")),
        sa.Column("weight", sa.Double, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("outcome", sa.Text),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("on_end", sa.JSON),
        sa.Column("is_told", sa.Integer, nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("created_at_ms", "touched_at_ms")),
        *(sa.Column(name, sa.BigInteger) for name in ("started_at_ms", "ended_at_ms", "deadline_at_ms")),
        *(sa.Column(name, sa.Integer, nullable=False) for name in _COUNTS),
        sa.Column("rate_1m", sa.Double),
        sa.PrimaryKeyConstraint("job_id", name="pk_chorale_job"),
        sa.Index("ix_chorale_job_state", "state"),
    )
    op.create_table(
        "chorale_job_segment",
        sa.Column("job_id", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        *(sa.Column(name, sa.Integer, nullable=False) for name in ("attempt", "tries", "again")),
        sa.Column("due_at_ms", sa.BigInteger, nullable=False),
        sa.Column("open", sa.Integer, nullable=False),
        sa.Column("left", sa.JSON),
        sa.Column("suspect", sa.Integer),
        *(sa.Column(name, sa.Integer, nullable=False) for name in ("degraded", "failed")),
        sa.Column("lines", sa.LargeBinary, nullable=False),
        sa.Column("results", sa.LargeBinary),
        sa.PrimaryKeyConstraint("job_id", "number", name="pk_chorale_job_segment"),
        sa.Index("ix_chorale_job_segment_state", "job_id", "state", "number"),
    )
