"""The outcome of every request of a soak."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from chorale_client.keys import COALESCING, ENTRY, OUTBOX, RESULT, WAKEUPS
from pydantic_core import from_json
from redis import Redis
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from models.tables.audit import HitRow, QuestionRow, RequestRow
from tests.soak.questions import PREFIX, Question, wrong


@dataclass(slots=True)
class Tally:
    requests: int = 0
    """Requests that a caller began."""
    ended: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    """Counts of `where reason` in requests that are degraded or failed."""
    ended_by: Counter[str] = field(default_factory=Counter)
    not_ended: list[str] = field(default_factory=list)
    wrong_joins: list[str] = field(default_factory=list)
    """One sentence for each wrong join."""
    rows_missing: list[str] = field(default_factory=list)
    rows_double: list[str] = field(default_factory=list)
    contradicted: list[str] = field(default_factory=list)
    """Requests whose waiting caller got another answer than the audit has."""
    remaining_keys: dict[str, int] = field(default_factory=dict)
    overruns_ms: list[int] = field(default_factory=list)
    """For every ended request its end less its deadline, by the Redis clock."""

    def overrun_ms(self, quantile: float) -> int:
        """Returns at least 0, which means in time."""
        in_order = sorted(max(0, one) for one in self.overruns_ms) or [0]
        return in_order[min(len(in_order) - 1, int(quantile * len(in_order)))]

    @property
    def zeros(self) -> Mapping[str, int]:
        """Returns the counts that have to be 0."""
        return {
            "not ended": len(self.not_ended),
            "wrong joins": len(self.wrong_joins),
            "audit rows missing": len(self.rows_missing),
            "audit rows double": len(self.rows_double),
            "callers told otherwise": len(self.contradicted),
            "keys left": sum(self.remaining_keys.values()),
        }


def judge_chorale(events: Iterable[Mapping[str, Any]], redis: Redis, engine: Engine, seed: int) -> Tally:
    """Judges by the audit, by the callers' answers, and by the keys left in Redis."""
    by_id = [(f"{PREFIX}{seed}-{event['number']}", event) for event in events]
    begun = {request_id for request_id, event in by_id if event["event"] == "begun"}
    answered = {request_id: event for request_id, event in by_id if event["event"] != "begun"}
    tally = Tally(requests=len(begun))
    rows, hits = _rows(engine)
    for request_id in sorted(begun):
        _judge(tally, request_id, rows.get(request_id, []), hits, answered.get(request_id), redis)
    patterns = (ENTRY + "*", COALESCING + "*")
    tally.remaining_keys = {
        pattern: sum(1 for _ in redis.scan_iter(pattern, count=1_000)) for pattern in patterns
    }
    tally.remaining_keys |= {WAKEUPS: redis.zcard(WAKEUPS), OUTBOX: redis.xlen(OUTBOX)}
    return tally


_Rows = dict[str, list[tuple[RequestRow, list[QuestionRow]]]]
_Hits = Mapping[tuple[str, int, int], list[HitRow]]


def _rows(engine: Engine) -> tuple[_Rows, _Hits]:
    rows: _Rows = defaultdict(list)
    questions: dict[tuple[str, int], list[QuestionRow]] = defaultdict(list)
    hits: dict[tuple[str, int, int], list[HitRow]] = defaultdict(list)
    with Session(engine, expire_on_commit=False) as session:
        for question in session.scalars(select(QuestionRow).order_by(QuestionRow.position)):
            questions[question.request_id, question.accepted_at_ms].append(question)
        for hit in session.scalars(select(HitRow).order_by(HitRow.rank)):
            hits[hit.request_id, hit.accepted_at_ms, hit.question].append(hit)
        for row in session.scalars(select(RequestRow)):
            rows[row.request_id].append((row, questions[row.request_id, row.accepted_at_ms]))
    return rows, hits


def _judge(
    tally: Tally,
    request_id: str,
    rows: list[tuple[RequestRow, list[QuestionRow]]],
    hits: _Hits,
    answered: Mapping[str, Any] | None,
    redis: Redis,
) -> None:
    result: Any = redis.get(RESULT + request_id)
    if not rows:
        # If a caller was killed before its request was accepted, the request leaves no trace.
        if result is not None:
            tally.rows_missing.append(request_id)
        elif answered is not None or redis.exists(ENTRY + request_id):
            tally.not_ended.append(request_id)
        else:
            tally.requests -= 1
        return
    if len(rows) > 1:
        tally.rows_double.append(request_id)
    row, questions = rows[0]
    tally.ended += 1
    tally.statuses[row.status] += 1
    tally.ended_by[row.ended_by] += 1
    tally.overruns_ms.append(row.ended_at_ms - row.accepted_at_ms - round(row.options["timeout_s"] * 1000))
    for one in row.degraded:
        tally.reasons[f"{one['where']} {one['reason']}"] += 1
    missing = {
        one["where"].removeprefix("search.") for one in row.degraded if one["where"].startswith("search.")
    }
    for question in questions:
        question_hits = hits[request_id, row.accepted_at_ms, question.position]
        judged = Question(
            question.text or "",
            question.status,
            [hit.document_id for hit in question_hits],
            {hit.document_id: frozenset(hit.explanation["branches"]) for hit in question_hits},
        )
        complaint = wrong(
            judged,
            missing=set() if question.cached else missing,
            is_emptied=bool(row.degraded) and row.options.get("on_missing") == "empty",
        )
        if complaint:
            tally.wrong_joins.append(f"{request_id}: {complaint}")
    if result is not None and from_json(result)["result"]["status"] != row.status:
        tally.contradicted.append(request_id)
    if answered is not None and answered["status"] != "unavailable":
        stored_ids = [
            [hit.document_id for hit in hits[request_id, row.accepted_at_ms, question.position]]
            for question in questions
        ]
        if (answered["status"], answered.get("hits", [])) != (row.status, stored_ids):
            tally.contradicted.append(request_id)


def judge_plain_chord(events: Iterable[Mapping[str, Any]], redis: Redis, seed: int) -> Tally:
    """Judges by the callers' answers, and by the results that came too late for them."""
    listed = list(events)
    begun = {event["number"] for event in listed if event["event"] == "begun"}
    tally = Tally(requests=len(begun))
    statuses = {event["number"]: event["status"] for event in listed if event["event"] == "answered"}
    for number in sorted(begun):
        request_id = f"{PREFIX}{seed}-{number}"
        result: Any = redis.get(RESULT + request_id)
        status = statuses.get(number, "caller killed")
        if result is None:
            tally.not_ended.append(request_id)
            tally.statuses["never ended"] += 1
            continue
        tally.ended += 1
        state = from_json(result)["status"]
        is_complete = state == "SUCCESS" and status == "complete"
        tally.statuses["complete" if is_complete else f"{status}, then {state}"] += 1
    tally.remaining_keys = {"all": sum(1 for _ in redis.scan_iter("*", count=1_000))}
    return tally
