"""The metrics that Prometheus reads: their names, labels and meaning.

No label grows with users: the values are branches and queues of the pipeline file, and words of this service.
"""

from __future__ import annotations

from dataclasses import dataclass

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
COUNTERS = (DEGRADED, QUESTIONS)

OUTBOX_REFUSED = Series("chorale_outbox_refused", "Requests refused because the outbox was full")

QUEUE_LENGTH = Series("chorale_queue_messages", "Messages that no worker has taken", ("queue",))
QUEUE_AGE = Series("chorale_queue_oldest_seconds", "How long the oldest message has waited", ("queue",))
BREAKER = Series(
    "chorale_breaker_open",
    "1: not asked, 0.5: one request tries it, 0: closed; a branch, or store:<name>",
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
GAUGES = (
    *(QUEUE_LENGTH, QUEUE_AGE, BREAKER, REFUSING, OUTBOX, OUTBOX_LIMIT),
    *(QUARANTINE, IN_FLIGHT, SWEEPER_ACTING, SWEEPER_LAG),
)
