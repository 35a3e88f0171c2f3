"""The rows of segments: their packed values, and what happens to all segments of a job when it ends or is retried.

Everything runs in the caller's transaction.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from chorale_client.jobs.job_line import METADATA
from chorale_client.wire_names import Status
from pydantic_core import from_json, to_json
from sqlalchemy import ColumnElement, Connection, RowMapping, func, or_, select, update

from models.tables.installation import job_table as jobs
from models.tables.installation import segment_table as segments
from records.jobs.job import Job, Line, Outcome, unanswered

_UNTRIED: Mapping[str, Any] = {"state": "waiting", "tries": 0, "again": 0, "due_at_ms": 0, "suspect": None}
"""A segment that no worker has begun yet."""


def add_counts(connection: Connection, job_id: str, **more: int) -> None:
    changed = {name: jobs.c[name] + count for name, count in more.items() if count}
    if changed:
        connection.execute(update(jobs).where(jobs.c.job_id == job_id).values(**changed))


def page(
    connection: Connection, job_id: str, after: int, *which: ColumnElement[bool]
) -> Sequence[RowMapping]:
    """The next segments after number `after`, in input order; none at the end."""
    next_segments = select(segments).where(segments.c.job_id == job_id, segments.c.number > after, *which)
    return connection.execute(next_segments.order_by(segments.c.number).limit(16)).mappings().all()


def pages(connection: Connection, job_id: str, *which: ColumnElement[bool]) -> Iterator[RowMapping]:
    after = -1
    while rows := page(connection, job_id, after, *which):
        yield from rows
        after = rows[-1]["number"]


def reopen(connection: Connection, job: Job, *, is_wanted: bool) -> Counter[str]:
    """With `is_wanted`, lets the unanswered segments of an ended job wait again.  Otherwise gives them the status of their
    lines as their state, because the feeder would send them in the state `waiting`.  Returns the number of lines that wait
    again, by the status that they had."""
    status = unanswered_status("waiting", job.outcome)
    ours = segments.c.job_id == job.job_id
    if not is_wanted:
        connection.execute(update(segments).where(ours, segments.c.state == "waiting").values(state=status))
        return Counter()
    unanswered = segments.c.state.in_(("waiting", Outcome.EXPIRED, Outcome.CANCELLED))
    open_lines = select(segments.c.state, func.sum(segments.c.open)).where(ours, unanswered)
    again: Counter[str] = Counter()
    for state, count in connection.execute(open_lines.group_by(segments.c.state)):
        again[unanswered_status(state, job.outcome)] += count
    used = or_(
        segments.c.state != "waiting",
        segments.c.tries > 0,
        segments.c.again > 0,
        segments.c.due_at_ms > 0,
        segments.c.suspect.is_not(None),
    )
    connection.execute(update(segments).where(ours, unanswered, used).values(_UNTRIED))
    return again


def reopen_answered(connection: Connection, job_id: str, statuses: Sequence[str]) -> Counter[str]:
    """Lets the lines whose results have these statuses wait again; returns their number by status."""
    again: Counter[str] = Counter()
    for row in pages(connection, job_id, or_(*(segments.c[name] > 0 for name in statuses))):
        lines = lines_of(row["lines"])
        results = results_of(row["results"], len(lines))
        known = {place: result for place, result in enumerate(results) if result is not None}
        chosen = [place for place, result in known.items() if result["status"] in statuses]
        unanswered = [place for place in places_of(lines) if place not in known]
        by_status = Counter(str(known[place]["status"]) for place in chosen)
        again.update(by_status, deduplicated=sum(bool(known[place].get("deduplicated")) for place in chosen))
        if row["state"] in (Outcome.EXPIRED, Outcome.CANCELLED):
            again[row["state"]] += len(unanswered)
        remaining = sorted({*chosen, *unanswered})
        connection.execute(
            update(segments)
            .where(segments.c.job_id == job_id, segments.c.number == row["number"])
            .values(
                **_UNTRIED,
                left=remaining,
                open=len(remaining),
                degraded=segments.c.degraded - by_status["degraded"],
                failed=segments.c.failed - by_status["failed"],
            )
        )
    return again


def keep_earlier(connection: Connection, job_id: str) -> None:
    """Lets the lines that a retry did not reach keep the results that they have."""
    for row in pages(connection, job_id, segments.c.state == "waiting", segments.c.results.is_not(None)):
        results = results_of(row["results"], 0)
        earlier = {place: result for place in row["left"] if (result := results[place]) is not None}
        if not earlier:
            continue
        remaining = [place for place in row["left"] if place not in earlier]
        statuses = Counter(str(result["status"]) for result in earlier.values())
        connection.execute(
            update(segments)
            .where(segments.c.job_id == job_id, segments.c.number == row["number"])
            .values(
                state="waiting" if remaining else "done",
                left=remaining,
                open=len(remaining),
                degraded=segments.c.degraded + statuses["degraded"],
                failed=segments.c.failed + statuses["failed"],
            )
        )
        deduplicated = sum(bool(result.get("deduplicated")) for result in earlier.values())
        add_counts(connection, job_id, deduplicated=deduplicated, **statuses)


def places_of(lines: Sequence[Line]) -> list[int]:
    """The places of the lines that can be answered."""
    return [place for place, line in enumerate(lines) if line.fields is not None]


def packed(value: Any) -> bytes:
    return zlib.compress(to_json(value, inf_nan_mode="null"), 1)


def lines_of(packed: bytes) -> list[Line]:
    return [Line(*values) for values in from_json(zlib.decompress(packed))]


def results_of(packed: bytes | None, count: int) -> list[dict[str, Any] | None]:
    return from_json(zlib.decompress(packed)) if packed else [None] * count


def unanswered_status(state: str, outcome: str | None) -> str:
    """The status of the lines without a result, by the state of their segment and the outcome of their job."""
    ended = state if state in (Outcome.EXPIRED, Outcome.CANCELLED) else outcome
    return Outcome.EXPIRED if ended == Outcome.EXPIRED else Outcome.CANCELLED


def result_line(line: Line, result: Mapping[str, Any] | None, otherwise: str) -> dict[str, Any]:
    """The line with its question, its metadata and its result; a line without a result gets the status `otherwise`."""
    head: dict[str, Any] = {"line": line.number, "id": line.id}
    fields = line.fields or {}
    texts = [question["text"] for question in fields.get("questions", ())]
    if len(texts) == 1:
        head["text"] = texts[0]
    elif result is not None and "questions" in result:
        answers = zip(texts, result["questions"], strict=True)
        result = {**result, "questions": [{"text": text, **answer} for text, answer in answers]}
    if METADATA in fields:
        head[METADATA] = fields[METADATA]
    if result is not None:
        return {**head, **result}
    if line.fields is None:
        return {**head, **unanswered(Status.REFUSED, line.error or "")}
    is_late = otherwise == Outcome.EXPIRED
    why = "the job's deadline came first" if is_late else "the job was cancelled"
    return {**head, **unanswered(otherwise, why)}
