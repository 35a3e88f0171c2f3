"""Overload: the acting sweeper watches the queues; who accepts and plans requests reads what it found
(`ledger.backlog`).

New requests leave out a branch whose queue is over its bound, since the other branches still answer.  Requests are
refused only where no answer can be expected: `retrieve`, `fusion` or all branches are over their bounds.  A queue that
nobody serves is no overload: its branch's breaker opens, and its messages soon belong to ended requests.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from chorale_client.wire_names import QUEUE_FUSION, QUEUE_RETRIEVE
from structlog import get_logger

from ledger.backlog import Load, Overload
from models.duty import Duty
from monitoring.queues import Queues, QueueState, open_queues
from tasks.wiring.resources import Resources

log = get_logger("chorale.admission")

TICK_EVERY_S = 0.25
SERVED_WITHIN_S = 1.0
"""A queue whose oldest message stays longer than this has no worker, however many messages wait."""
FEWEST_WAITING = 10
"""Fewer messages, however old, mean a slow part or a hung worker, not overload."""
SHORTEST_RETRY_MS, LONGEST_RETRY_MS, UNKNOWN_RETRY_MS = 250, 30_000, 1_000


@dataclass(frozen=True, slots=True)
class Bounds:
    """Maximum length and age of a queue; 0: no limit."""

    length: int
    age_s: float


@dataclass(frozen=True, slots=True)
class Judgement:
    loads: Mapping[str, Load]
    retry_after_ms: int | None
    """New requests are refused, and may come again after about this time; None: they are accepted."""


@dataclass(slots=True)
class _QueueHistory:
    """What is known of a queue from earlier ticks."""

    state: QueueState
    at_s: float
    served_at_s: float | None = None
    served_per_s: float = 0.0
    passed: str = ""


class Judge:
    """Judges the states of queues, tick after tick.  A queue is over its bound if two ticks in a row find it so."""

    def __init__(self, bounds: Bounds, *, branch_queues: Iterable[str]) -> None:
        self._bounds = bounds
        self._branch_queues = frozenset(branch_queues)
        self._seen: dict[str, _QueueHistory] = {}

    def judge(self, states: Mapping[str, QueueState], now_s: float) -> Judgement:
        loads = {queue: self._load(queue, state, now_s) for queue, state in states.items()}
        over = {queue for queue, load in loads.items() if load.over}
        refusing = over & {QUEUE_RETRIEVE, QUEUE_FUSION}
        if self._branch_queues and self._branch_queues <= over:
            refusing |= self._branch_queues
        retry_ms = max((self._retry_after_ms(queue) for queue in refusing), default=None)
        return Judgement(loads, retry_ms)

    def _load(self, queue: str, state: QueueState, now_s: float) -> Load:
        before = self._seen.get(queue)
        now = self._seen[queue] = _updated(before, state, now_s)
        is_served = now.served_at_s is not None and now_s - now.served_at_s <= SERVED_WITHIN_S
        now.passed = _bound_passed(state, self._bounds) if is_served else ""
        over = now.passed if before is not None and before.passed else ""
        return Load(state.length or 0, None if state.age_s is None else round(state.age_s * 1000), over)

    def _retry_after_ms(self, queue: str) -> int:
        """A new message would wait about as long as the oldest one has, or as serving the whole queue takes."""
        seen = self._seen[queue]
        if seen.state.age_s is not None:
            wanted_ms = seen.state.age_s * 1000
        elif seen.served_per_s > 0:
            wanted_ms = (seen.state.length or 0) / seen.served_per_s * 1000
        else:
            wanted_ms = UNKNOWN_RETRY_MS
        return round(min(LONGEST_RETRY_MS, max(SHORTEST_RETRY_MS, wanted_ms)))


def _updated(before: _QueueHistory | None, state: QueueState, now_s: float) -> _QueueHistory:
    if before is None:
        return _QueueHistory(state, now_s)
    fewer = (before.state.length or 0) - (state.length or 0)
    has_moved = before.state.oldest is not None and state.oldest != before.state.oldest
    is_consumed = state.oldest is None and (fewer > 0 or bool(state.workers))
    return _QueueHistory(
        state,
        now_s,
        served_at_s=now_s if has_moved or is_consumed else before.served_at_s,
        served_per_s=fewer / max(now_s - before.at_s, 0.001) if fewer > 0 else before.served_per_s,
    )


def _bound_passed(state: QueueState, bounds: Bounds) -> str:
    length = state.length or 0
    if 0 < bounds.length <= length:
        return "length"
    is_old = state.age_s is not None and 0 < bounds.age_s <= state.age_s
    return "age" if is_old and length >= FEWEST_WAITING else ""


class QueueWatch(Duty):
    """Has a thread of its own: a broker that hangs must not keep the sweeper from ending requests."""

    failing = "queues not seen"
    expected = (Exception,)  # whatever a broker's transport raises

    def __init__(self, resources: Resources, sweeper: str, is_acting: Callable[[], bool]) -> None:
        settings, pipeline = resources.settings, resources.pipeline
        self._sweeper = sweeper
        self._is_acting = is_acting
        self._bounds = Bounds(settings.admission_length, settings.admission_age_s)
        self._branch_queues = frozenset(branch.queue for branch in pipeline.branches)
        self._open: Callable[[], Queues] = partial(
            open_queues, resources.redis, pipeline.request_queues, broker_url=settings.broker_url
        )
        self._overload = Overload(resources.redis)
        self._was_over: frozenset[str] = frozenset()
        self._opened: tuple[Queues, Judge] | None = None

    @property
    def is_wanted(self) -> bool:
        return bool(self._bounds.length or self._bounds.age_s)

    def tick(self) -> float:
        if not self._is_acting():
            self.reset()
            return 2 * TICK_EVERY_S
        self._opened = self._opened or (self._open(), Judge(self._bounds, branch_queues=self._branch_queues))
        self.report(*self._opened)
        return TICK_EVERY_S

    def reset(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            with suppress(Exception):  # it is gone either way
                opened[0].close()

    def report(self, queues: Queues, judge: Judge) -> None:
        """Write what waits, and which bounds are passed, into Redis, where it expires soon."""
        judgement = judge.judge(queues.states(), time.monotonic())
        loads, retry_after_ms = judgement.loads, judgement.retry_after_ms
        self._overload.write(self._sweeper, loads, retry_after_ms=retry_after_ms)
        over = frozenset(queue for queue, load in loads.items() if load.over)
        for queue in over - self._was_over:
            log.warning("overload", queue=queue, load=str(loads[queue]), refusing=retry_after_ms)
        for queue in self._was_over - over:
            log.warning("overload is over", queue=queue)
        self._was_over = over
