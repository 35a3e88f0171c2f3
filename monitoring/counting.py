"""The metrics that Prometheus reads, and the counting of ended requests in one Redis hash, which `monitoring.exporter` reads.

No label grows with users: the values are names of the pipeline file, and words of this service.  The drainer sees every
ended request.  It adds a batch of them in one round trip, so workers and callers do nothing for the metrics of requests.  A
drainer that is killed between its two steps may count one batch never or twice.  The process that calls a model's endpoint
adds its tokens, since indexing is no request.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chorale_client.keys import METRICS
from chorale_client.scripts import Scripts
from chorale_client.wire_names import BranchStatus, Reason, Stage, Status
from redis import Redis
from redis.exceptions import RedisError

from monitoring.ended_requests import ended_branches
from records.audit.outbox import Ended

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the buckets of a histogram; a request takes at most 60 s."""


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    meaning: str
    labels: tuple[str, ...] = ()


REQUEST = Series(
    "chorale_request_duration_seconds",
    "Time from acceptance to end of a request, by its status",
    ("outcome",),
)
BRANCH = Series(
    "chorale_branch_duration_seconds",
    "Working time of a branch: ok, empty, or the reason of its failure",
    ("branch", "outcome"),
)
QUEUE_WAIT = Series(
    "chorale_branch_queue_wait_seconds",
    "Time from the acceptance of a request to the start of a branch: planning, and the queues of both",
    ("branch",),
)
HISTOGRAMS = (REQUEST, BRANCH, QUEUE_WAIT)

DEGRADED = Series(
    "chorale_degraded",
    "Missing parts of answers; a stage that is no branch stands in brackets, such as (rerank)",
    ("branch", "reason"),
)
QUESTIONS = Series(
    "chorale_questions",
    "Questions of ended requests: hit, miss (searched), in_flight (an equal question was), bypass, unanswered",
    ("cache",),
)
TOKENS = Series(
    "chorale_endpoint_tokens",
    "Tokens that the endpoint of an encoder, reranker or language model reported as used",
    ("role", "name"),
)
COUNTERS = (DEGRADED, QUESTIONS, TOKENS)

OUTBOX_REFUSED = Series("chorale_outbox_refused", "Requests refused because the outbox was full")

QUEUE_LENGTH = Series("chorale_queue_messages", "Messages that no worker has taken", ("queue",))
QUEUE_AGE = Series("chorale_queue_oldest_seconds", "How long the oldest message has waited", ("queue",))
BREAKER = Series(
    "chorale_breaker_open",
    "1: not asked, 0.5: one request tries it, 0: closed; a branch, store:<name>, generator:<branch> or encoder:<name>",
    ("breaker",),
)
REFUSING = Series("chorale_refusing", "1 while new requests are refused under overload")
OUTBOX = Series("chorale_outbox_entries", "Ended requests that wait for the audit tables")
OUTBOX_LIMIT = Series("chorale_outbox_limit_entries", "Entries at which requests are refused; 0: no limit")
QUARANTINE = Series("chorale_quarantined_entries", "Malformed entries that were deleted; at most 1,000")
IN_FLIGHT = Series("chorale_requests_in_flight", "Requests that have not ended")
SWEEPER_ACTING = Series("chorale_sweeper_acting", "1 if a sweeper acts")
SWEEPER_LAG = Series(
    "chorale_sweeper_lag_seconds", "How long the most overdue request in flight has waited for a sweeper"
)
CELL_UP = Series("chorale_cell_up", "1 if the Redis of the cell can be read", ("cell",))
GAUGES = (
    *(QUEUE_LENGTH, QUEUE_AGE, BREAKER, REFUSING, OUTBOX, OUTBOX_LIMIT),
    *(QUARANTINE, IN_FLIGHT, SWEEPER_ACTING, SWEEPER_LAG),
)


SEPARATOR = "|"
SUM = "sum_us"
"""The last part of the field with the sum of a histogram, in microseconds."""
BREAKERS = "breakers"
"""The field with the names of all breakers of the pipeline."""
OTHER = "other"
"""Stands for every value that is not the pipeline's own or a word of this service."""

_WORDS = frozenset({*BranchStatus, *Reason, *Status})


class RequestFigures:
    """`branches` are the names of the pipeline's branches, `breakers` those of its breakers."""

    def __init__(self, redis: Redis, *, branches: Iterable[str], breakers: Sequence[str]) -> None:
        self._scripts = Scripts(redis, Path(__file__).parent / "scripts")
        self._branches = frozenset(branches)
        self._breakers = breakers

    def ended(self, requests: Sequence[Ended]) -> None:
        """Count these requests.  Raises RedisError."""
        counts: Counter[str] = Counter()
        for request in requests:
            counts.update(increments(request, self._branches))
        flat = [part for field, count in counts.items() for part in (field, count)]
        self._scripts.run("add_counts", [METRICS], [BREAKERS, SEPARATOR.join(self._breakers), *flat])


def increments(ended: Ended, branches: frozenset[str]) -> Counter[str]:
    """What one request adds to each field of the hash."""
    counts: Counter[str] = Counter()
    status = _word(ended.answer.get("status"))
    _observe(counts, REQUEST, [status], ended.ended_at_ms - ended.accepted_at_ms)
    for ended_branch in ended_branches(ended):
        branch = _known(ended_branch.name, branches)
        if ended_branch.ms is not None:
            _observe(counts, BRANCH, [branch, _word(ended_branch.outcome)], ended_branch.ms)
        if ended_branch.start_ms is not None:
            _observe(counts, QUEUE_WAIT, [branch], ended_branch.start_ms)
    for missing in ended.answer.get("degraded") or ():
        counts[field(DEGRADED, [_place(missing["where"], branches), _word(missing["reason"])])] += 1
    for how, count in _cache(ended).items():
        counts[field(QUESTIONS, [how])] += count
    return counts


def add_tokens(redis: Redis, role: str, name: str, tokens: int) -> None:
    """Add the tokens of one call of an endpoint.  Raises nothing, since the metrics are not worth its answer."""
    with suppress(RedisError):
        redis.hincrby(METRICS, field(TOKENS, [role, name]), tokens)


def field(series: Series, labels: Sequence[str], *last: str) -> str:
    return SEPARATOR.join([series.name, *labels, *last])


def _observe(counts: Counter[str], series: Series, labels: Sequence[str], ms: float) -> None:
    place = bisect_left(BUCKETS_S, ms / 1000)
    counts[field(series, labels, str(place))] += 1
    counts[field(series, labels, SUM)] += round(max(0.0, ms) * 1000)


def _cache(ended: Ended) -> dict[str, int]:
    """How many questions the cache answered, by label."""
    n_questions = len(ended.request.get("questions") or ())
    if ended.by == "leader":
        return {"in_flight": n_questions}
    if ended.answer.get("cached"):
        return {"hit": n_questions}
    if ended.plan is None:
        return {"unanswered": n_questions}
    searched = "miss" if ended.plan.get("cacheable", True) else "bypass"
    by_label = {"hit": len(ended.plan.get("cached") or ()), searched: len(ended.plan.get("searched") or ())}
    return {how: count for how, count in by_label.items() if count}


def _place(where: str, branches: frozenset[str]) -> str:
    stage, _, branch = where.partition(".")
    if stage == Stage.SEARCH:
        return _known(branch, branches)
    return f"({stage})" if stage in frozenset(Stage) else OTHER


def _known(branch: str, branches: frozenset[str]) -> str:
    return branch if branch in branches else OTHER


def _word(word: Any) -> str:
    return str(word) if word in _WORDS else OTHER
