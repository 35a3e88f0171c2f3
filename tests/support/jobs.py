"""Jobs in the store and results for them, without workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from records.jobs.job import Line, NewJob, Outcome, Segment
from records.jobs.store import Jobs

LEASE_MS = 60_000


def lines(count: int, *, first: int = 1, refused: Sequence[int] = ()) -> list[Line]:
    """Lines `q1`, `q2`, …; those whose numbers are `refused` have an error instead of a question."""
    return [
        Line(number, f"q{number}", None, "text: empty")
        if number in refused
        else Line(number, f"q{number}", {"questions": [{"text": f"question {number}"}]})
        for number in range(first, first + count)
    ]


def submitted(
    store: Jobs, job_id: str, segments: Sequence[Sequence[Line]], *, now_ms: int = 1, **fields: Any
) -> str:
    """A job in the state `queued` with these segments; returns its id."""
    store.create(NewJob(job_id, "default", **fields), now_ms=now_ms)
    store.add(job_id, dict(enumerate(segments)), now_ms=now_ms)
    store.begin(job_id, segments=len(segments), now_ms=now_ms)
    return job_id


def next_segment(store: Jobs, job_id: str, *, now_ms: int = 10) -> Segment:
    """The job's next segment, as a worker has it."""
    sent = store.send(job_id, now_ms=now_ms, lease_ms=LEASE_MS)
    assert sent is not None, "no segment waits"
    segment = store.take(job_id, *sent[:2], now_ms=now_ms, lease_ms=LEASE_MS)
    assert segment is not None
    return segment


def result(status: str = "complete", **fields: Any) -> dict[str, Any]:
    """The result of a line as a worker writes it; its only hit is `d1`."""
    return {
        "status": status,
        "coverage": {"complete": 1.0, "degraded": 0.5}.get(status, 0.0),
        "hits": [{"rank": 1, "document_id": "d1", "score": 0.5}]
        if status in ("complete", "degraded")
        else [],
        "degraded": [{"where": "vector", "reason": "unavailable"}] if status == "degraded" else [],
        "warnings": [],
        "error": "no branch answered" if status == "failed" else None,
        "deduplicated": False,
        **fields,
    }


def answered(
    store: Jobs, job_id: str, by_line: Mapping[int, Mapping[str, Any]] | None = None, *, segments: int = 10**6
) -> int:
    """Answer up to that many segments, each line as `by_line` has it or else completely; returns how many there were."""
    for count in range(segments):
        sent = store.send(job_id, now_ms=10, lease_ms=LEASE_MS)
        segment = None if sent is None else store.take(job_id, *sent[:2], now_ms=10, lease_ms=LEASE_MS)
        if segment is None:
            return count
        numbers = {place: segment.lines[place].number for place in segment.remaining}
        results = {place: (by_line or {}).get(number, result()) for place, number in numbers.items()}
        assert store.write(segment, results) is not None
    return segments


def ended(store: Jobs, job_id: str, by_line: Mapping[int, Mapping[str, Any]] | None = None) -> str:
    """Answer all lines, and end the job; returns its id."""
    answered(store, job_id, by_line)
    assert store.end(job_id, Outcome.COMPLETED, now_ms=100)
    return job_id


def statuses(store: Jobs, job_id: str, *, after: int = 0) -> list[tuple[int, str]]:
    """Number and status of each result line."""
    return [(line["line"], line["status"]) for line in store.results(job_id, after=after)]
