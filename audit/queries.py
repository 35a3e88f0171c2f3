"""Reads the audit trail: the latest requests, and everything about one request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session, selectinload

from models.audit_tables import QuestionRow, RequestRow

LISTED = (
    *("request_id", "accepted_at_ms", "status", "took_ms", "namespace", "correlation_id", "configuration"),
    *("ended_by", "degraded"),
)
"""The columns of a request in a list."""


def count(engine: Engine) -> int:
    """Number of requests in the trail."""
    with Session(engine) as session:
        return session.scalar(select(func.count()).select_from(RequestRow)) or 0


def last(engine: Engine, n: int) -> Sequence[RequestRow]:
    """The `n` latest requests by acceptance, newest first, with their questions and without hits and branches."""
    newest = select(RequestRow).order_by(RequestRow.accepted_at_ms.desc(), RequestRow.request_id).limit(n)
    with Session(engine) as session:
        return session.scalars(newest.options(selectinload(RequestRow.questions))).all()


def listed(row: RequestRow) -> dict[str, Any]:
    """A request of `last` as `chorale audit last --json` prints it: with the number of questions, and the first one's text."""
    text = row.questions[0].text if row.questions else None
    return {name: getattr(row, name) for name in LISTED} | {"questions": len(row.questions), "text": text}


def show(engine: Engine, request_id: str) -> RequestRow | None:
    """A request with its questions, hits and branches; if several used the id, the latest one."""
    latest = (
        select(RequestRow)
        .where(RequestRow.request_id == request_id)
        .order_by(RequestRow.accepted_at_ms.desc())
        .limit(1)
    )
    questions = selectinload(RequestRow.questions).selectinload(QuestionRow.hits)
    with Session(engine) as session:
        return session.scalar(latest.options(questions, selectinload(RequestRow.branches)))
