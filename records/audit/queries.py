"""Reads the audit trail: the latest requests, and everything about one request."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from json import dumps
from typing import Any

from chorale_client.wire_names import Status
from sqlalchemy import ColumnElement, Engine, Select, Text, and_, case, cast, func, or_, select
from sqlalchemy.orm import Session, selectinload

from models.shadow_ids import SUFFIX
from models.tables.audit import QuestionRow, RequestRow

LISTED = (
    *("request_id", "accepted_at_ms", "status", "took_ms", "namespace", "correlation_id", "configuration"),
    *("ended_by", "degraded"),
)


_BY_CALLERS = ~RequestRow.request_id.endswith(SUFFIX, autoescape=True)


@dataclass(frozen=True, slots=True)
class Which:
    """Requests that meet all of these conditions."""

    owner: str = ""
    """The beginning of the ids of these requests."""
    namespaces: Collection[str] | None = None
    correlation_id: str | None = None
    status: str | None = None
    namespace: str | None = None
    missing: str | None = None
    """A branch that is missing from the answer."""
    among: Select[tuple[str]] | None = None
    """Selects ids of requests."""
    by_callers: bool = False
    """Without shadows, which repeat questions."""

    def conditions(self) -> Iterator[ColumnElement[bool]]:
        if self.owner:
            yield RequestRow.request_id.startswith(self.owner, autoescape=True)
        if self.namespaces is not None:
            yield RequestRow.namespace.in_(self.namespaces)
        for name in ("correlation_id", "status", "namespace"):
            if (value := getattr(self, name)) is not None:
                yield getattr(RequestRow, name) == value
        if self.missing is not None:
            where = dumps(f"search.{self.missing}")
            yield cast(RequestRow.degraded, Text).contains(where, autoescape=True)
        if self.among is not None:
            yield RequestRow.request_id.in_(self.among)
        if self.by_callers:
            yield _BY_CALLERS


def last(
    engine: Engine,
    n: int,
    which: Which | None = None,
    *,
    after: tuple[int, str] | None = None,
    with_branches: bool = False,
) -> Sequence[RequestRow]:
    """The `n` latest requests by acceptance, newest first, with their questions and without hits; with what their branches
    reported only if that is wanted.

    `after` is `accepted_at_ms` and id of the last request that is known.
    """
    accepted, request_id = RequestRow.accepted_at_ms, RequestRow.request_id
    newest = select(RequestRow).order_by(accepted.desc(), request_id).limit(n)
    newest = newest.where(*(which or Which()).conditions())
    if after is not None:
        newest = newest.where(or_(accepted < after[0], and_(accepted == after[0], request_id > after[1])))
    below = [RequestRow.questions, *([RequestRow.branches] if with_branches else [])]
    with Session(engine) as session:
        return session.scalars(newest.options(*map(selectinload, below))).all()


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


MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Minute:
    """The requests that were accepted in one minute."""

    requests: int
    partial: int
    """Degraded or failed."""
    p95_ms: float
    """95 % of them took at most so long, from acceptance to end."""


def minutes(engine: Engine, first: int, count: int) -> dict[int, Minute]:
    """By the number of the minute since 1970, without those in which nothing was asked, and without shadows."""
    accepted = RequestRow.accepted_at_ms
    minute = (accepted - accepted % MINUTE_MS) / MINUTE_MS
    place = func.percent_rank().over(partition_by=minute, order_by=RequestRow.took_ms)
    within = accepted >= first * MINUTE_MS, accepted < (first + count) * MINUTE_MS
    rows = select(minute.label("minute"), RequestRow.status, RequestRow.took_ms, place.label("place"))
    of = rows.where(*within, _BY_CALLERS).subquery().c
    is_partial = of.status.in_([Status.DEGRADED, Status.FAILED])
    figures = (
        func.count(),
        func.sum(case((is_partial, 1), else_=0)),
        func.max(case((of.place <= 0.95, of.took_ms))),
    )
    with engine.connect() as connection:
        grouped = connection.execute(select(of.minute, *figures).group_by(of.minute))
        return {int(number): Minute(*values) for number, *values in grouped}
