"""What is changed through the console, and what users and judges say of hits."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "chorale_change",
        sa.Column("change_id", sa.Text, nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("key_id", sa.Text, nullable=False),
        sa.Column("key_name", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("change_id", name="pk_chorale_change"),
    )
    op.create_index("ix_chorale_change_at_ms", "chorale_change", ["at_ms"])
    op.create_table(
        "chorale_feedback",
        sa.Column("feedback_id", sa.Text, nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("key_id", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("request_id", sa.Text, nullable=False),
        sa.Column("question", sa.Integer, nullable=False),
        sa.Column("text", sa.Text),
        sa.Column("text_hash", sa.Text, nullable=False),
        sa.Column("configuration", sa.Text),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("grade", sa.Integer),
        sa.Column("action_name", sa.Text, nullable=False),
        sa.Column("object_id", sa.Text),
        sa.Column("ordinal", sa.Integer),
        sa.PrimaryKeyConstraint("feedback_id", name="pk_chorale_feedback"),
    )
    op.create_index("ix_chorale_feedback_text_hash", "chorale_feedback", ["namespace", "text_hash"])
    op.create_index("ix_chorale_feedback_request_id", "chorale_feedback", ["request_id"])
