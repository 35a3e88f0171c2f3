"""Requests, questions, branches, hits."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "chorale_request",
        *_identity(),
        sa.Column("ended_at_ms", sa.BigInteger, nullable=False),
        sa.Column("ended_by", sa.String, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("took_ms", sa.Double, nullable=False),
        sa.Column("namespace", sa.String, nullable=False),
        sa.Column("correlation_id", sa.String),
        sa.Column("tags", sa.JSON, nullable=False),
        sa.Column("top_k", sa.Integer, nullable=False),
        sa.Column("configuration", sa.String),
        sa.Column("method", sa.String),
        sa.Column("generation", sa.BigInteger),
        sa.Column("now", sa.String),
        sa.Column("models", sa.JSON, nullable=False),
        sa.Column("options", sa.JSON, nullable=False),
        sa.Column("plan", sa.JSON),
        sa.Column("degraded", sa.JSON, nullable=False),
        sa.Column("stages", sa.JSON, nullable=False),
        sa.Column("warnings", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("request_id", "accepted_at_ms", name="pk_chorale_request"),
    )
    op.create_index("ix_chorale_request_accepted_at_ms", "chorale_request", ["accepted_at_ms"])
    op.create_index("ix_chorale_request_correlation_id", "chorale_request", ["correlation_id"])
    op.create_table(
        "chorale_question",
        *_identity(),
        sa.Column("position", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("text", sa.String),
        sa.Column("rewrites", sa.JSON),
        sa.Column("text_hash", sa.String, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("cached", sa.Boolean, nullable=False),
        sa.Column("ordered_by", sa.String),
        sa.Column("total_matches", sa.BigInteger),
        *_child_of_request("chorale_question", "position"),
    )
    op.create_index("ix_chorale_question_text_hash", "chorale_question", ["text_hash"])
    op.create_table(
        "chorale_branch",
        *_identity(),
        sa.Column("branch", sa.String, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("reason", sa.String),
        sa.Column("detail", sa.String, nullable=False),
        sa.Column("ms", sa.Double),
        sa.Column("attempt", sa.Integer),
        sa.Column("generation", sa.BigInteger),
        sa.Column("weight", sa.Double),
        sa.Column("depth", sa.Integer),
        sa.Column("candidates", sa.LargeBinary),
        *_child_of_request("chorale_branch", "branch"),
    )
    op.create_table(
        "chorale_hit",
        *_identity(),
        sa.Column("question", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("rank", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("document_id", sa.String, nullable=False),
        sa.Column("passage_id", sa.String),
        sa.Column("score", sa.Double),
        sa.Column("found_by", sa.JSON, nullable=False),
        sa.Column("explanation", sa.JSON, nullable=False),
        *_child_of_request("chorale_hit", "question", "rank"),
    )
    op.create_index("ix_chorale_hit_document_id", "chorale_hit", ["document_id"])


def _identity() -> tuple[sa.Column[str], sa.Column[int]]:
    return (
        sa.Column("request_id", sa.String, nullable=False),
        sa.Column("accepted_at_ms", sa.BigInteger, autoincrement=False, nullable=False),
    )


def _child_of_request(table: str, *key: str) -> tuple[sa.ForeignKeyConstraint, sa.PrimaryKeyConstraint]:
    return (
        sa.ForeignKeyConstraint(
            ["request_id", "accepted_at_ms"],
            ["chorale_request.request_id", "chorale_request.accepted_at_ms"],
            name=f"fk_{table}_chorale_request",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("request_id", "accepted_at_ms", *key, name=f"pk_{table}"),
    )
