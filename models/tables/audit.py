"""The audit trail as SQL rows: a request, its questions, what each branch found, what was answered.

The key of a request is (`request_id`, `accepted_at_ms`), since an id may be used again after the first has expired.
Times are milliseconds since 1970 by the Redis server's clock.  The rows suffice to fuse again without any store.

On PostgreSQL each table is partitioned by `accepted_at_ms` (`records.audit.months`).  No foreign key joins the tables: it would look up the request of
each row that is written, and search all months before one is dropped.  A request is written and deleted with its children in one transaction.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic_core import from_json
from sqlalchemy import DDL, JSON, BigInteger, Double, Index, LargeBinary, MetaData, event
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from models.hits import Ranking


class AuditTable(DeclarativeBase):
    """The base of the audit tables."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012 - read by SQLAlchemy when the class is made
        dict[str, Any]: JSON(none_as_null=True),
        list[Any]: JSON(none_as_null=True),
        float: Double(),
        bytes: LargeBinary(),
    }
    HIDDEN: ClassVar[frozenset[str]] = frozenset({"request_id", "accepted_at_ms"})
    """Columns that `to_dict` omits."""
    BELOW: ClassVar[tuple[str, ...]] = ()
    """What `to_dict` adds: rows that belong to this one, and values that are computed from a column."""

    # These columns come first, so each primary key begins with them.
    request_id: Mapped[str] = mapped_column(primary_key=True, sort_order=-2)
    accepted_at_ms: Mapped[int] = mapped_column(
        BigInteger, primary_key=True, autoincrement=False, sort_order=-1
    )

    def to_dict(self) -> dict[str, Any]:
        """The row with what belongs to it, as `chorale audit show --json` prints it."""
        names = (*(name for name in self.__table__.columns.keys() if name not in self.HIDDEN), *self.BELOW)  # noqa: SIM118
        return {name: _as_json(getattr(self, name)) for name in names}


def _as_json(value: Any) -> Any:
    if isinstance(value, AuditTable):
        return value.to_dict()
    return [_as_json(item) for item in value] if isinstance(value, list) else value


def _partitioned(*indexes: Index) -> tuple[Index | dict[str, str], ...]:
    return (*indexes, {"postgresql_partition_by": "RANGE (accepted_at_ms)"})


def _join_condition(parent: str, child: str, *more: str) -> str:
    """The condition by which the rows of `child` belong to one of `parent`."""
    pairs = [f"foreign({child}.{name}) == {parent}.{name}" for name in ("request_id", "accepted_at_ms")]
    return f"and_({', '.join([*pairs, *more])})"


class RequestRow(AuditTable):
    __tablename__ = "chorale_request"
    __table_args__ = _partitioned(Index(None, "accepted_at_ms"), Index(None, "correlation_id"))
    HIDDEN = frozenset()
    BELOW = ("questions", "branches")

    ended_at_ms: Mapped[int] = mapped_column(BigInteger)
    ended_by: Mapped[str]
    """`fusion`, `sweeper`, `client`, `planner`, `admission`, `cache` or `leader`."""
    status: Mapped[str]
    took_ms: Mapped[float]
    namespace: Mapped[str]
    correlation_id: Mapped[str | None]
    tags: Mapped[dict[str, Any]]
    top_k: Mapped[int]
    configuration: Mapped[str | None]
    """`configuration` and `method` are None if the request was never planned."""
    method: Mapped[str | None]
    generation: Mapped[int | None] = mapped_column(BigInteger)
    """The corpus generation at planning time."""
    now: Mapped[str | None]
    """ISO 8601; the time that recency was measured from."""
    models: Mapped[dict[str, Any]]
    """Fingerprint by the purpose of the model."""
    options: Mapped[dict[str, Any]]
    """The request without its questions."""
    plan: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """All resolved values, without cached answers."""
    degraded: Mapped[list[Any]]
    stages: Mapped[list[Any]]
    warnings: Mapped[list[Any]]
    questions: Mapped[list[QuestionRow]] = relationship(
        primaryjoin=_join_condition("RequestRow", "QuestionRow"),
        order_by="QuestionRow.position",
        lazy="raise",
        viewonly=True,
    )
    branches: Mapped[list[BranchRow]] = relationship(
        primaryjoin=_join_condition("RequestRow", "BranchRow"),
        order_by="BranchRow.branch",
        lazy="raise",
        viewonly=True,
    )


class QuestionRow(AuditTable):
    __tablename__ = "chorale_question"
    __table_args__ = _partitioned(Index(None, "text_hash"))
    BELOW = ("hits",)

    position: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    """The question's place in the request, from 0."""
    text: Mapped[str | None]
    """None if texts are not kept."""
    rewrites: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """`variants` and `hypothetical_documents`; None if there are none, or if texts are not kept."""
    text_hash: Mapped[str]
    """SHA-256 (hex) of the text in UTF-8; HMAC-SHA-256 under a secret key if texts are not kept."""
    status: Mapped[str]
    cached: Mapped[bool]
    """True if the hits came from the cache and no branch searched."""
    ordered_by: Mapped[str | None]
    total_matches: Mapped[int | None] = mapped_column(BigInteger)
    hits: Mapped[list[HitRow]] = relationship(
        primaryjoin=_join_condition(
            "QuestionRow", "HitRow", "foreign(HitRow.question) == QuestionRow.position"
        ),
        order_by="HitRow.rank",
        lazy="raise",
        viewonly=True,
    )


class BranchRow(AuditTable):
    __tablename__ = "chorale_branch"
    __table_args__ = _partitioned()
    HIDDEN = AuditTable.HIDDEN | {"candidates"}
    BELOW = ("rankings", "completed")

    branch: Mapped[str] = mapped_column(primary_key=True)
    status: Mapped[str]
    """`failed` also for a branch that was expected and never reported."""
    reason: Mapped[str | None]
    detail: Mapped[str]
    ms: Mapped[float | None]
    attempt: Mapped[int | None]
    generation: Mapped[int | None] = mapped_column(BigInteger)
    weight: Mapped[float | None]
    depth: Mapped[int | None]
    candidates: Mapped[bytes | None]
    """zlib of the JSON list of rankings, one with all hits for each searched question; with `complete_scores` each also has
    its `completed` scores.  NULL if the branch failed, or if the candidates were left out because the outbox was too long or
    by `CHORALE_AUDIT_HITS_SHARE`."""

    @property
    def rankings(self) -> tuple[Ranking, ...]:
        """The `candidates`; empty if there are none (the `status` is `ok` if they were left out)."""
        return tuple(map(Ranking.from_wire, self._wires))

    @property
    def completed(self) -> list[Mapping[str, float]] | None:
        """For each of `rankings`, the scores from the store for passages that only other branches found, by passage id.
        None if there are none, or if the rows lack them."""
        wires = self._wires
        if self.candidates is None or any("completed" not in wire for wire in wires):
            return None
        return [wire["completed"] for wire in wires]

    @property
    def _wires(self) -> list[dict[str, Any]]:
        return from_json(zlib.decompress(self.candidates)) if self.candidates else []


class HitRow(AuditTable):
    __tablename__ = "chorale_hit"
    __table_args__ = _partitioned(Index(None, "document_id"))
    HIDDEN = AuditTable.HIDDEN | {"question"}

    question: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    """The question's position."""
    rank: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    document_id: Mapped[str]
    passage_id: Mapped[str | None]
    score: Mapped[float | None]
    found_by: Mapped[list[Any]]
    explanation: Mapped[dict[str, Any]]
    """The answer's explanation of the score: branches, boosts, folded, rerank; only what the caller included."""


# The default partition takes rows of moments for which there is no month.
_OTHER = DDL("CREATE TABLE %(table)s_other PARTITION OF %(table)s DEFAULT")  # type: ignore[no-untyped-call]
for _table in AuditTable.metadata.tables.values():
    event.listen(_table, "after_create", _OTHER.execute_if(dialect="postgresql"))
