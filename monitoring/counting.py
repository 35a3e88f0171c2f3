"""Counts ended requests for Prometheus in one Redis hash, which `monitoring.exporter` reads.

The drainer sees every ended request.  It adds a batch of them in one round trip, so workers and callers do nothing for
the metrics.  A drainer that is killed between its two steps may count one batch never or twice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from chorale_client.keys import METRICS
from chorale_client.scripts import Scripts
from chorale_client.words import EnvelopeStatus, Reason, Stage, Status
from redis import Redis

from audit.outbox import Ended
from monitoring.ended_branches import ended_branches
from monitoring.series import BRANCH, BUCKETS_S, DEGRADED, QUESTIONS, QUEUE_WAIT, REQUEST, Series

SEPARATOR = "|"
SUM = "sum_us"
"""The last part of the field with the sum of a histogram, in microseconds."""
BREAKERS = "breakers"
"""The field with the names of all breakers of the pipeline."""
OTHER = "other"
"""Stands for every value that is not the pipeline's own or a word of this service."""

_WORDS = frozenset({*EnvelopeStatus, *Reason, *Status})


class RequestFigures:
    """`branches` are the names of the pipeline's branches, `breakers` those of its breakers."""

    def __init__(self, redis: Redis, *, branches: Iterable[str], breakers: Sequence[str]) -> None:
        self._scripts = Scripts(redis, Path(__file__).parent / "scripts")
        self._branches = frozenset(branches)
        self._breakers = breakers

    def ended(self, requests: Sequence[Ended]) -> None:
        """Count these requests.  Raises RedisError."""
        counts: Counter[str] = Counter()
        for one in requests:
            counts.update(increments(one, self._branches))
        told = [part for field, count in counts.items() for part in (field, count)]
        self._scripts.run("add_counts", [METRICS], [BREAKERS, SEPARATOR.join(self._breakers), *told])


def increments(ended: Ended, branches: frozenset[str]) -> Counter[str]:
    """What one request adds to each field of the hash."""
    counts: Counter[str] = Counter()
    status = _word(ended.answer.get("status"))
    _observe(counts, REQUEST, [status], ended.ended_at_ms - ended.accepted_at_ms)
    for one in ended_branches(ended):
        branch = _known(one.name, branches)
        if one.ms is not None:
            _observe(counts, BRANCH, [branch, _word(one.outcome)], one.ms)
        if one.start_ms is not None:
            _observe(counts, QUEUE_WAIT, [branch], one.start_ms)
    for missing in ended.answer.get("degraded") or ():
        counts[field(DEGRADED, [_place(missing["where"], branches), _word(missing["reason"])])] += 1
    for how, count in _cache(ended).items():
        counts[field(QUESTIONS, [how])] += count
    return counts


def field(series: Series, labels: Sequence[str], *last: str) -> str:
    return SEPARATOR.join([series.name, *labels, *last])


def _observe(counts: Counter[str], series: Series, labels: Sequence[str], ms: float) -> None:
    place = bisect_left(BUCKETS_S, ms / 1000)
    counts[field(series, labels, str(place))] += 1
    counts[field(series, labels, SUM)] += round(max(0.0, ms) * 1000)


def _cache(ended: Ended) -> dict[str, int]:
    """How many questions the cache answered, by label."""
    asked = len(ended.request.get("questions") or ())
    if ended.by == "leader":
        return {"in_flight": asked}
    if ended.answer.get("cached"):
        return {"hit": asked}
    if ended.plan is None:
        return {"unanswered": asked}
    searched = "miss" if ended.plan.get("cacheable", True) else "bypass"
    found = {"hit": len(ended.plan.get("cached") or ()), searched: len(ended.plan.get("asked") or ())}
    return {how: count for how, count in found.items() if count}


def _place(where: str, branches: frozenset[str]) -> str:
    stage, _, branch = where.partition(".")
    if stage == Stage.SEARCH:
        return _known(branch, branches)
    return f"({stage})" if stage in frozenset(Stage) else OTHER


def _known(branch: str, branches: frozenset[str]) -> str:
    return branch if branch in branches else OTHER


def _word(word: Any) -> str:
    return str(word) if word in _WORDS else OTHER
