"""Reads the audit trail: the latest requests, and everything about one request."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic_core import from_json
from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from models.audit_tables import AuditTable, BranchRow, HitRow, QuestionRow, RequestRow
from models.envelope import Envelope
from models.hits import Ranking

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Row = TypeVar("_Row", QuestionRow, BranchRow, HitRow)
_Shape = TypeVar("_Shape", bound="DataclassInstance")


@dataclass(frozen=True, slots=True)
class AuditedHit:
    rank: int
    document_id: str
    passage_id: str | None
    score: float | None
    found_by: Sequence[str]
    explanation: dict[str, Any]
    """`branches`, `boosts`, `folded`, … as in the answer; only what the caller included."""


@dataclass(frozen=True, slots=True)
class AuditedQuestion:
    position: int
    text: str | None
    """None if texts are not kept."""
    rewrites: dict[str, Any] | None
    text_hash: str
    status: str
    cached: bool
    ordered_by: str | None
    total_matches: int | None
    hits: tuple[AuditedHit, ...]


@dataclass(frozen=True, slots=True)
class AuditedBranch:
    branch: str
    status: str
    reason: str | None
    detail: str
    ms: float | None
    attempt: int | None
    generation: int | None
    weight: float | None
    depth: int | None
    rankings: tuple[Ranking, ...]
    """All candidates, one ranking for each searched question; empty if they were left out (`status` is then `ok`)."""

    def envelope(self) -> Envelope:
        """The branch's envelope, for fusing again."""
        return Envelope(
            self.branch,
            self.status,
            self.reason,
            self.detail,
            self.rankings,
            ms=self.ms or 0.0,
            generation=self.generation,
            attempt=self.attempt or 1,
        )


@dataclass(frozen=True, slots=True)
class AuditedLine:
    """A request in a list."""

    request_id: str
    accepted_at_ms: int
    status: str
    took_ms: float
    namespace: str
    correlation_id: str | None
    configuration: str | None
    ended_by: str
    degraded: Sequence[dict[str, str]]
    questions: int
    text: str | None
    """Text of the first question."""


@dataclass(frozen=True, slots=True)
class AuditedRequest:
    """Everything about one request; `models.audit_tables` describes the columns."""

    request_id: str
    accepted_at_ms: int
    ended_at_ms: int
    ended_by: str
    status: str
    took_ms: float
    namespace: str
    correlation_id: str | None
    tags: dict[str, str]
    top_k: int
    configuration: str | None
    method: str | None
    generation: int | None
    now: str | None
    models: dict[str, str]
    options: dict[str, Any]
    plan: dict[str, Any] | None
    degraded: Sequence[dict[str, str]]
    stages: Sequence[dict[str, Any]]
    warnings: Sequence[str]
    questions: tuple[AuditedQuestion, ...]
    branches: tuple[AuditedBranch, ...]


def count(engine: Engine) -> int:
    """Number of requests in the trail."""
    with Session(engine) as session:
        return session.scalar(select(func.count()).select_from(RequestRow)) or 0


def last(engine: Engine, n: int) -> tuple[AuditedLine, ...]:
    """The `n` latest requests by acceptance, newest first."""
    newest = select(RequestRow).order_by(RequestRow.accepted_at_ms.desc(), RequestRow.request_id).limit(n)
    with Session(engine) as session:
        requests = session.scalars(newest).all()
        asked = select(QuestionRow).where(QuestionRow.request_id.in_([row.request_id for row in requests]))
        texts: dict[tuple[str, int], list[str | None]] = {}
        for question in session.scalars(asked.order_by(QuestionRow.position)):
            texts.setdefault((question.request_id, question.accepted_at_ms), []).append(question.text)
        lines = []
        for row in requests:
            its_texts = texts.get((row.request_id, row.accepted_at_ms), [])
            lines.append(
                _as(AuditedLine, row, questions=len(its_texts), text=its_texts[0] if its_texts else None)
            )
        return tuple(lines)


def show(engine: Engine, request_id: str) -> AuditedRequest | None:
    """Everything about a request; if several used the id, the latest one."""
    with Session(engine) as session:
        row = session.scalars(
            select(RequestRow)
            .where(RequestRow.request_id == request_id)
            .order_by(RequestRow.accepted_at_ms.desc())
            .limit(1)
        ).first()
        if row is None:
            return None

        hits: dict[int, list[AuditedHit]] = {}
        for hit in _children(session, row, HitRow, HitRow.question, HitRow.rank):
            hits.setdefault(hit.question, []).append(_as(AuditedHit, hit))
        return _as(
            AuditedRequest,
            row,
            questions=tuple(
                _as(AuditedQuestion, question, hits=tuple(hits.get(question.position, ())))
                for question in _children(session, row, QuestionRow, QuestionRow.position)
            ),
            branches=tuple(
                _as(AuditedBranch, branch, rankings=read_candidates(branch.candidates))
                for branch in _children(session, row, BranchRow, BranchRow.branch)
            ),
        )


def read_candidates(blob: bytes | None) -> tuple[Ranking, ...]:
    """The rankings in a branch's `candidates` column."""
    return tuple(Ranking.from_wire(wire) for wire in from_json(zlib.decompress(blob))) if blob else ()


def _children(session: Session, request: RequestRow, table: type[_Row], *order: Any) -> Sequence[_Row]:
    its_own = (table.request_id == request.request_id, table.accepted_at_ms == request.accepted_at_ms)
    return session.scalars(select(table).where(*its_own).order_by(*order)).all()


def _as(shape: type[_Shape], row: AuditTable, **given: Any) -> _Shape:
    """`shape` with each field from the column of the same name, or from `given`."""
    columns = {field.name: getattr(row, field.name) for field in fields(shape) if field.name not in given}
    return shape(**columns, **given)
