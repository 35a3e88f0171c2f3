"""Breakers of branches and stores: after several failures in a row a branch is not asked for a while, then by one request.

    closed  --N failures in a row-->  open  --its time is over-->  half open: one probe
      ^ an answer, whoever brought it                                   |  its failure: open again
      +-----------------------------------------------------------------+

The process that ends a request counts its outcomes (`count`); the process that plans a request reads the breakers (`read`)
and claims the probe.  A closed breaker without failures has no key.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from chorale_client.keys import BREAKER, DURATIONS
from redis import Redis

from ledger import ledger_scripts
from ledger.backlog import Load, read_loads, read_retry_after_ms
from ledger.breaker_outcomes import Outcome, counts_of

ALL_WELL_FOR_S = 0.1
"""How long a process reuses a snapshot with every breaker closed and no overload."""
FORGOTTEN_AFTER_MS = 600_000
"""Failures farther apart are not in a row; durations that are older are dropped."""
MOST_DURATIONS = 200
FEWEST_DURATIONS = 20
"""With fewer durations the 95th percentile would be one of the two slowest."""
CLAIM_GRACE_MS = 1_000
"""A probe without a result blocks the next one until its request's time limit and this grace have passed."""


@dataclass(frozen=True, slots=True)
class Breaker:
    """A breaker that is not closed; times are milliseconds by the Redis server's clock."""

    name: str
    """A branch's name, `store:<store>`, `generator:<branch>` or `encoder:<encoder>`."""
    opened_at_ms: int
    open_until_ms: int
    is_probed: bool
    """A request is probing it at present."""
    failures: int
    reason: str
    """The reason of the last failure."""

    def state(self, now_ms: int) -> str:
        return "open" if now_ms < self.open_until_ms else "half_open"

    def __str__(self) -> str:
        kind, _, name = self.name.partition(":")
        who = f"{name!r}, its {kind}, " if kind in ("store", "encoder") and name else ""
        return (
            f"{who}not asked since {_clock(self.opened_at_ms)}, tried again from {_clock(self.open_until_ms)} on; "
            f"{self.failures} failures in a row, the last: {self.reason}"
        )


@dataclass(frozen=True, slots=True)
class LoadSnapshot:
    """What a planner has to know, at one moment."""

    now_ms: int
    breakers: Mapping[str, Breaker] = field(default_factory=dict)
    """Breakers that are not closed, by name."""
    loads: Mapping[str, Load] = field(default_factory=dict)
    """Key: queue; empty if no sweeper measures the queues."""
    retry_after_ms: int | None = None
    """New requests are refused for about this time; None: they are accepted."""

    @property
    def is_well(self) -> bool:
        return not self.breakers and not any(load.over for load in self.loads.values())


@dataclass(frozen=True, slots=True)
class BreakerTransition:
    """A breaker that a call opened or closed."""

    name: str
    is_open: bool


class Breakers:
    """Thread-safe.  The client must not decode responses; every method raises RedisError.

    `failures` in a row open a breaker (0: never) for `open_s` seconds.
    """

    def __init__(self, client: Redis, *, failures: int, open_s: float) -> None:
        self._client = client
        self._scripts = ledger_scripts(client)
        self._failures = failures
        self._open_ms = round(open_s * 1000)
        self._lock = threading.Lock()
        self._well: tuple[frozenset[str], float, LoadSnapshot] | None = None
        self._slowest: dict[str, tuple[float, int | None]] = {}

    def read(self, names: Iterable[str]) -> LoadSnapshot:
        """The present state of these breakers; reused for ALL_WELL_FOR_S if all are closed and nothing is overloaded."""
        watched = frozenset(names)
        with self._lock:
            if self._well is not None:
                known, until_s, snapshot = self._well
                if watched <= known and time.monotonic() < until_s:
                    return snapshot
        now_ms, flat, *open_ones = self._scripts.run("breakers", args=sorted(watched))
        breakers = [_breaker(int(now_ms), fields) for fields in open_ones] if self._failures else []
        by_name = {breaker.name: breaker for breaker in breakers}
        snapshot = LoadSnapshot(int(now_ms), by_name, read_loads(flat), read_retry_after_ms(flat))
        with self._lock:
            self._well = (watched, time.monotonic() + ALL_WELL_FOR_S, snapshot) if snapshot.is_well else None
        return snapshot

    def claim(self, request_id: str, names: Sequence[str], *, timeout_s: float, early: bool = False) -> bool:
        """Claim the open ones of these breakers for this request; no other request may try them until it has ended.

        `early`: also before `open_until`.  Returns whether the request may try them.
        """
        args = [request_id, round(timeout_s * 1000) + CLAIM_GRACE_MS, "1" if early else "", *names]
        return bool(self._scripts.run("probe", args=args))

    def count(self, request_id: str, outcomes: Iterable[Outcome]) -> tuple[BreakerTransition, ...]:
        """Count the outcomes of an ended request; call it once for each request."""
        return read_transitions(self._scripts.run("outcomes", args=self.arguments(request_id, outcomes)))

    def arguments(self, request_id: str, outcomes: Iterable[Outcome]) -> list[Any]:
        """The arguments of the script that counts the outcomes of an ended request."""
        ttl_ms = max(FORGOTTEN_AFTER_MS, 2 * self._open_ms)
        args: list[Any] = [request_id, self._failures, self._open_ms, ttl_ms, MOST_DURATIONS]
        for outcome in outcomes:
            ms = "" if outcome.answered_after_ms is None else outcome.answered_after_ms
            args += [outcome.name, outcome.verdict, outcome.reason, ms]
        return args

    def close_unserved(self, names: Iterable[str]) -> list[str]:
        """Close the breakers that opened because nobody answered in time.  Call it when a worker of these branches has started.

        Returns the names of the closed breakers.  A branch that is still too slow opens its breaker again.
        """
        closed: list[str] = []
        for name in names:
            reason = self._client.hget(BREAKER + name, "reason")
            if isinstance(reason, bytes) and counts_of(reason.decode()).by_the_clock:
                self._client.delete(BREAKER + name)
                closed.append(name)
        return closed

    def p95_ms(self, branches: Sequence[str]) -> dict[str, int | None]:
        """The 95th percentile of the time from acceptance to answer, by branch; None: too few answers are known.  The
        figures are at most a second old."""
        now_s = time.monotonic()
        with self._lock:
            old = [name for name in branches if self._slowest.get(name, (0.0, None))[0] < now_s]
        if old:
            trip = self._client.pipeline(transaction=False)
            for name in old:
                trip.lrange(DURATIONS + name, 0, -1)
            fresh = {
                name: (now_s + 1, _p95(list(map(int, raw))))
                for name, raw in zip(old, trip.execute(), strict=True)
            }
            with self._lock:
                self._slowest |= fresh
        with self._lock:
            return {name: self._slowest[name][1] for name in branches}


def read_transitions(answer: Iterable[Sequence[bytes]]) -> tuple[BreakerTransition, ...]:
    """Read what the script that counts outcomes returned."""
    return tuple(BreakerTransition(name.decode(), word == b"opened") for name, word in answer)


def _p95(durations_ms: Sequence[int]) -> int | None:
    """The nearest-rank percentile."""
    if len(durations_ms) < FEWEST_DURATIONS:
        return None
    return sorted(durations_ms)[-(-95 * len(durations_ms) // 100) - 1]


def _breaker(now_ms: int, fields: Sequence[bytes | None]) -> Breaker:
    name, opened_at, open_until, probe_until, failures, reason = (
        value.decode() if value is not None else "" for value in fields
    )
    is_probed = bool(probe_until) and now_ms < int(probe_until)
    return Breaker(name, int(opened_at or 0), int(open_until), is_probed, int(failures or 0), reason)


def _clock(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%H:%M:%S} UTC"
