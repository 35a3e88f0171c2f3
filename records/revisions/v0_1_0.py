"""The first schema: the audit trail, jobs, keys, rules, changes by the console, and feedback."""

import sqlalchemy as sa
from alembic import op

revision = "0.1.0"
down_revision = None

_COUNTS = (
    *("segments", "total", "running", "complete", "degraded", "failed", "skipped", "refused", "expired"),
    *("cancelled", "deduplicated"),
)


def upgrade() -> None:
    _create_trail()
    _create_jobs()
    _create_keys()
    _create_rules()
    _create_changes()


def _create_trail() -> None:
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


def _create_jobs() -> None:
    op.create_table(
        "chorale_job",
        sa.Column("job_id", sa.Text, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("name", "namespace", "tenant")),
        sa.Column("weight", sa.Double, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("outcome", sa.Text),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("on_end", sa.JSON),
        sa.Column("callback_sent", sa.Integer, nullable=False),
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


def _create_keys() -> None:
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


def _create_rules() -> None:
    op.create_table(
        "chorale_rules",
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("changed_at_ms", sa.BigInteger, nullable=False),
        sa.Column("changed_by", sa.Text, nullable=False),
        sa.Column("rules", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("namespace", "version", name="pk_chorale_rules"),
    )


def _create_changes() -> None:
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
