"""What runs on a Redis, and what is wrong with it: the checks that `chorale doctor`, `chorale status`, `/readyz` and the
console show, each in its own way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from chorale_client.keys import CALLBACKS, QUARANTINE, SWEEPER, WAKEUPS
from chorale_client.wire_names import QUEUE_BULK, QUEUE_FUSION, QUEUE_INDEX, QUEUE_RETRIEVE
from redis import Redis

from ledger.backlog import Quarantine, read_outbox_bound, read_quarantine
from ledger.breaker_outcomes import store_name
from ledger.breakers import Breakers, LoadSnapshot
from monitoring.heartbeats import Heartbeat, read_heartbeats
from monitoring.queues import QueueState, read_queues, with_workers
from records.audit.outbox import UNREADABLE, outbox_state

if TYPE_CHECKING:
    from config.declarations import Pipeline

STALE_S = 5.0
"""A process writes its heartbeat every second; the key expires after ten."""
LONG_QUEUE = 100
"""Waiting messages; a process takes some hundred in a second."""
OLD_S = 30.0
"""An ended request is usually in the tables within a second."""
_POLLS, _POLL_S = 20, 0.05


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong."""

    what: str
    mend: str
    """What to do about it."""
    is_remark: bool = False
    """A remark is only shown: the check counts as well, and the exit code stays 0."""
    part: str = ""
    """The queue or the process that is missing."""
    is_needed: bool = False
    """Whether no search is answered without that part."""


class Running:
    """Reads each part once, when it is first used.  Raises RedisError."""

    def __init__(
        self,
        redis: Redis,
        queues: Sequence[str],
        *,
        broker_url: str | None = None,
        breakers: Sequence[str] = (),
        reads_messages: bool = True,
    ) -> None:
        """`broker_url` is Celery's broker if that is another server than `redis`; `breakers` are their names.

        The login of the API reads no messages: it has the ages of queues from the sweeper.
        """
        self.redis = redis
        self.queues = queues
        self._broker_url = broker_url
        self._breakers = breakers
        self._reads_messages = reads_messages
        self._processes: list[Heartbeat] | None = None

    @classmethod
    def from_pipeline(
        cls, pipeline: Pipeline, redis: Redis, *, broker_url: str | None, **options: Any
    ) -> Self:
        breakers = [*(branch.name for branch in pipeline.branches), *map(store_name, pipeline.stores)]
        return cls(redis, pipeline.queues, broker_url=broker_url, breakers=breakers, **options)

    @property
    def processes(self) -> list[Heartbeat]:
        # A `cached_property` of Python 3.11 has one lock for all objects, so that a silent cell would hold up the others.
        if self._processes is None:
            self._processes = read_heartbeats(self.redis)
        return self._processes

    @cached_property
    def queue_states(self) -> Mapping[str, QueueState]:
        if self._broker_url is not None or self._reads_messages:
            return read_queues(self.redis, self.queues, broker_url=self._broker_url, workers=self.processes)
        with self.redis.pipeline(transaction=False) as trip:
            for queue in self.queues:
                trip.llen(queue)
            lengths = trip.execute()
        ages_ms = {name: load.age_ms for name, load in self.load.loads.items()}
        states = {
            queue: QueueState(length, None if (age_ms := ages_ms.get(queue)) is None else age_ms / 1000)
            for queue, length in zip(self.queues, lengths, strict=True)
        }
        return with_workers(states, self.processes)

    @cached_property
    def load(self) -> LoadSnapshot:
        return Breakers(self.redis, failures=1, open_s=0.0).read(self._breakers)

    @cached_property
    def quarantine(self) -> Quarantine:
        return read_quarantine(self.redis)

    @cached_property
    def outbox(self) -> Mapping[str, Any]:
        entries, age_s = outbox_state(self.redis)
        bound = read_outbox_bound(self.redis)
        return {
            "entries": entries,
            "oldest_s": age_s,
            "limit": bound.entries,
            "refused": bound.refused,
            "unreadable": int(self.redis.xlen(UNREADABLE)),
        }

    def findings(self, *excluded: str) -> list[dict[str, Any]]:
        """What each check finds, as JSON, without the checks `excluded`."""
        return [
            {"check": name, **asdict(finding)}
            for name, check in CHECKS.items()
            if name not in excluded
            for finding in check(self)
        ]

    def served(self) -> dict[str, Any]:
        """JSON of processes and queues."""
        return {
            "workers": [
                {name: value for name, value in asdict(process).items() if name != "about"}
                for process in self.processes
            ],
            "queues": [
                {"queue": name, "length": state.length, "oldest_s": state.age_s, "workers": state.workers}
                for name, state in self.queue_states.items()
            ],
        }

    def to_wire(self) -> dict[str, Any]:
        """JSON of all parts and findings."""
        load = self.load
        return {
            **self.served(),
            "breakers": [
                {
                    "name": breaker.name,
                    "state": breaker.state(load.now_ms),
                    "open_for_s": max(0, load.now_ms - breaker.opened_at_ms) / 1000,
                    "tried_again_in_s": max(0, breaker.open_until_ms - load.now_ms) / 1000,
                    "is_probed": breaker.is_probed,
                    "failures": breaker.failures,
                    "reason": breaker.reason,
                }
                for breaker in load.breakers.values()
            ],
            "refusing_for_s": None if load.retry_after_ms is None else load.retry_after_ms / 1000,
            "requests_in_flight": int(self.redis.zcard(WAKEUPS)),
            "outbox": self.outbox,
            "quarantine": asdict(self.quarantine),
            "findings": self.findings(),
        }


Check: TypeAlias = Callable[[Running], Iterator[Finding]]


def workers(running: Running) -> Iterator[Finding]:
    """Every queue has a worker that is ready and gives signs of life."""
    branches = {*running.queues} - {QUEUE_RETRIEVE, QUEUE_FUSION, QUEUE_INDEX, QUEUE_BULK}
    ready = {queue for process in running.processes if process.is_ready for queue in process.queues}
    for queue in running.queues:
        serving = [process for process in running.processes if queue in process.queues]
        is_answered = any(process.is_serving for process in serving)
        is_needed = (queue in branches and ready.isdisjoint(branches)) or (
            queue in (QUEUE_RETRIEVE, QUEUE_FUSION) and not is_answered
        )
        if not serving:
            start = f"start `chorale worker {queue.removeprefix('chorale.')}`, or all of it: `chorale up`"
            yield Finding(f"nobody works on {queue}", start, part=queue, is_needed=is_needed)
        elif queue not in ready:
            what = f"the worker of {queue} is not ready yet"
            # Not in `what`, which a probe without a key reads: the reasons name servers.
            lacks = "; ".join(dict.fromkeys(one for process in serving for one in process.missing))
            wait = "wait until its model is loaded; if that does not help, its log says why"
            mend = f"mend what it lacks: {lacks}" if lacks else wait
            yield Finding(what, mend, part=queue, is_needed=is_needed)
    for process in running.processes:
        if process.age_s > STALE_S:
            yield Finding(
                f"{process.name} has given no sign of life for {process.age_s:.0f} s (process {process.pid})",
                "`chorale up` starts it again by itself; elsewhere stop it and start it again",
            )


def sweeper(running: Running) -> Iterator[Finding]:
    if not any(process.is_serving and not process.queues for process in running.processes):
        yield Finding(
            "no sweeper process runs: jobs and the audit trail wait",
            "start `chorale sweeper`, or all of it: `chorale up`",
            part="sweeper",
        )
    for process in running.processes:
        if not process.queues and process.is_serving and not process.is_ready:
            lacks = "; ".join(process.missing) or "its log says what"
            yield Finding(f"the sweeper {process.name} is not ready yet", f"mend what it lacks: {lacks}")


def sweeping(running: Running) -> Iterator[Finding]:
    # Between two leases of sweepers there is a moment without one.
    for _ in range(_POLLS):
        if running.redis.exists(SWEEPER):
            return
        time.sleep(_POLL_S)
    yield Finding(
        "nobody sweeps: a request whose worker dies would not end", "start `chorale sweeper`, or `chorale up`"
    )


def queue_lengths(running: Running) -> Iterator[Finding]:
    for queue, state in running.queue_states.items():
        if state.length is not None and state.length > LONG_QUEUE:
            name = queue.removeprefix("chorale.")
            yield Finding(
                f"{state.length:,} messages wait on {queue}",
                f"more processes: `chorale up --processes {name}=2`; or see in its log why it is slow",
            )


def load(running: Running) -> Iterator[Finding]:
    if (retry_after_ms := running.load.retry_after_ms) is not None:
        yield Finding(
            f"new requests are refused, for about {retry_after_ms / 1000:.1f} s",
            "more processes for the queue that is long; or ask less",
        )
    for breaker in running.load.breakers.values():
        probe = "; one request tries it at this moment" if breaker.is_probed else ""
        yield Finding(
            f"breaker {breaker.name}: {breaker}{probe}",
            "mend its server or its worker; the first request that it answers closes the breaker",
        )


def outbox(running: Running) -> Iterator[Finding]:
    state = running.outbox
    is_filling = 0 < state["limit"] <= 2 * state["entries"]
    if state["oldest_s"] > OLD_S or is_filling:
        most = f" of at most {state['limit']:,}" if state["limit"] else ""
        without = "; further ones wait without their candidates, and then requests are refused"
        yield Finding(
            f"{state['entries']:,}{most} ended requests wait for the audit tables, the oldest for "
            f"{state['oldest_s']:,.0f} s{without if is_filling else ''}",
            "see the log of `chorale sweeper`: usually its database is locked or away",
        )
    unsent, age_s = outbox_state(running.redis, CALLBACKS)
    if age_s > OLD_S:
        yield Finding(
            f"{unsent:,} ended requests wait for the tasks that follow them (on_end, link), the oldest for {age_s:,.0f} s",
            "see the log of `chorale sweeper`: usually the broker is away, or RabbitMQ does not have the queue yet",
        )
    if aside := state["unreadable"]:
        yield Finding(
            f"{aside:,} ended requests could not be written and are kept aside",
            f"read them with `redis-cli XRANGE {UNREADABLE} - + COUNT 5`, then delete the key",
        )


def quarantine(running: Running) -> Iterator[Finding]:
    entries = running.quarantine
    if entries.entries:
        reasons = "; ".join(f"{request_id} ({why})" for request_id, why in entries.first.items())
        yield Finding(
            f"{entries.entries:,} malformed entries of requests were found in Redis and deleted, such as {reasons}",
            "a login writes what `chorale_client` does not: find its owner, and change the password of `caller`; then "
            f"`redis-cli DEL {QUARANTINE}` ends this finding, as does a day without another one",
        )


CHECKS: Mapping[str, Check] = {
    "workers": workers,
    "sweeper": sweeper,
    "sweeping": sweeping,
    "queues": queue_lengths,
    "load": load,
    "outbox": outbox,
    "quarantine": quarantine,
}
