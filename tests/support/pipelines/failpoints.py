"""Named places in the life of a request where a test can kill, hang or fail the process that reaches them.

A process that ran `PRELOAD` first checks at each place whether a fault is armed there; the first process that reaches
the place has the fault.  The product knows nothing of this.
"""

from __future__ import annotations

import functools
import importlib
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from chorale_client.wire_names import QUEUE_FUSION
from redis import Redis
from redis.connection import AbstractConnection
from redis.exceptions import RedisError

from tests.support.waiting import until

PRELOAD = "from tests.support.pipelines import failpoints; failpoints.install()\n"

ARMED, FAULT_COUNTS, FAULT_PROCESSES = (
    "test:failpoint:",
    "test:failpoints:counts",
    "test:failpoints:processes",
)

PROCESS = "CHORALE_TEST_PROCESS"
"""The variable with a process's name in the pipeline."""


@dataclass(frozen=True, slots=True)
class Place:
    targets: tuple[str, ...]
    """`module:Class.method` or `module:function`; several where a worker has several ways to the same step."""
    when: str
    """`before` the call, `after` it, or `while`: Redis has the command and the reply is not read yet."""
    only: Callable[[Mapping[str, Any], Any], bool] = lambda _options, _result: True
    """Selects calls by keyword arguments and, after the call, by their result."""


def _ends_by(who: str) -> Callable[[Mapping[str, Any], Any], bool]:
    return lambda options, _: options.get("by") == who


def _ledger_methods(*methods: str) -> tuple[str, ...]:
    return tuple(f"ledger.redis:RedisLedger.{method}" for method in methods)


def _is_branch(options: Mapping[str, Any], _: Any) -> bool:
    return "first" not in options or _queue(options) != QUEUE_FUSION


def _is_fusion(options: Mapping[str, Any], _: Any) -> bool:
    return _queue(options) == QUEUE_FUSION if "first" in options else not options.get("force")


def _queue(options: Mapping[str, Any]) -> str | None:
    """The queue of the message that the worker has; None if a token has woken it."""
    first: tuple[str, ...] | None = options["first"]
    return first[0] if first else None


def _has_joined(options: Mapping[str, Any], result: Any) -> bool:
    if not _is_fusion(options, result):
        return False
    return (result[0].joined if isinstance(result, list) else result) is not None


_START, _JOIN = _ledger_methods("start", "take"), _ledger_methods("join", "take")
_PLAN = _ledger_methods("plan", "submit")
_REPORT, _FINISH = _ledger_methods("report_all"), _ledger_methods("finish_all")

PLACES: Mapping[str, Place] = {
    "publisher.after_accept": Place(("chorale_client.ledger:CallersLedger.accept",), "after"),
    "planner.before_plan": Place(_PLAN, "before"),
    "planner.while_plan": Place(_PLAN, "while"),
    "planner.after_plan": Place(_PLAN, "after"),
    "branch.before_start": Place(_START, "before", _is_branch),
    "branch.after_start": Place(_START, "after", _is_branch),
    "branch.before_report": Place(_REPORT, "before"),
    "branch.while_report": Place(_REPORT, "while"),
    "branch.after_report": Place(_REPORT, "after"),
    "fusion.before_join": Place(_JOIN, "before", _is_fusion),
    "fusion.after_join": Place(_JOIN, "after", _has_joined),
    "fusion.before_finish": Place(_FINISH, "before", _ends_by("fusion")),
    "fusion.while_finish": Place(_FINISH, "while", _ends_by("fusion")),
    "fusion.after_finish": Place(_FINISH, "after", _ends_by("fusion")),
    "sweeper.after_sweep": Place(_ledger_methods("sweep"), "after", lambda _, result: bool(result.actions)),
    "sweeper.before_finish": Place(_FINISH, "before", _ends_by("sweeper")),
    "sweeper.while_finish": Place(_FINISH, "while", _ends_by("sweeper")),
    "drainer.before_commit": Place(("records.audit.drainer:insert_new",), "after"),
    "drainer.after_commit": Place(("records.audit.drainer:Drainer._write",), "after"),
}
"""The places that a fault can hit, named after the process and the step of docs/reference/ledger.md."""

JOB_PLACES: Mapping[str, Place] = {
    "feeder.after_send": Place(
        ("records.jobs.store:Jobs.send",), "after", lambda _, result: result is not None
    ),
    "feeder.before_end": Place(("records.jobs.store:Jobs.end",), "before"),
    "feeder.after_end": Place(("records.jobs.store:Jobs.end",), "after"),
    "bulk.before_take": Place(("records.jobs.store:Jobs.take",), "before"),
    "bulk.after_take": Place(("records.jobs.store:Jobs.take",), "after"),
    "bulk.before_write": Place(("records.jobs.store:Jobs.write",), "before"),
    "bulk.after_write": Place(("records.jobs.store:Jobs.write",), "after"),
}
"""The places of bulk jobs; `install(JOB_PLACES)` wraps them."""


def _hang() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)
    # Where another thread takes the signal, this one runs on for a moment.
    time.sleep(0.02)


FAULTS: Mapping[str, Callable[[], None]] = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "hang": _hang,
    "sleep": lambda: time.sleep(3),
    "nothing": lambda: None,
}


def arm(
    client: Redis, place: str, fault: str = "kill", *, times: int = 1, process: str = "", request_id: str = ""
) -> None:
    """This fault happens the next `times` that a process reaches this place.

    If `process` or the request is given, it happens only to that process, and only while it handles that request.
    """
    known = {**PLACES, **JOB_PLACES}
    assert place in known, f"no place {place!r}; there are: {', '.join(known)}"
    assert fault in FAULTS, f"no fault {fault!r}; there are: {', '.join(FAULTS)}"
    client.rpush(_armed(place, process), *[f"{fault} {request_id}"] * times)


def _armed(place: str, process: str) -> str:
    return f"{ARMED}{place}@{process}" if process else ARMED + place


def disarm(client: Redis) -> None:
    for key in client.scan_iter(ARMED + "*"):
        client.delete(key)


def fault_counts(client: Redis) -> dict[str, int]:
    """Returns the number of faults that happened, by place."""
    counts: Any = client.hgetall(FAULT_COUNTS)
    return {place.decode(): int(count) for place, count in counts.items()}


def wait_for_fault(client: Redis, place: str, *, before: int = 0, limit_s: float = 30) -> str:
    """Waits until a fault of this place happened, beyond those of `before`; returns the process that it hit."""
    until(lambda: fault_counts(client).get(place, 0) > before, limit_s)
    name: Any = client.hget(FAULT_PROCESSES, place)
    return str(name.decode())


class _Armed:
    """Takes armed faults in the process under test, on its own connection."""

    def __init__(self, url: str) -> None:
        self._client = Redis.from_url(url, socket_timeout=1, socket_connect_timeout=1)
        self._process = os.environ.get(PROCESS, "")
        self.pending = threading.local()

    def take(self, place: str, *about: Any) -> Callable[[], None] | None:
        with suppress(RedisError):
            for process in {self._process, ""}:
                key = _armed(place, process)
                armed: Any = self._client.lindex(key, 0)
                if armed is None:
                    continue
                fault, _, request_id = armed.decode().partition(" ")
                if request_id in repr(about) and self._client.lrem(key, 1, armed):
                    self._client.hset(FAULT_PROCESSES, place, self._process)
                    self._client.hincrby(FAULT_COUNTS, place, 1)
                    return FAULTS[fault]
        return None

    def act(self, place: str, *about: Any) -> None:
        fault = self.take(place, *about)
        if fault is not None:
            fault()


def install(places: Mapping[str, Place] = PLACES) -> None:
    """Wrap every one of `places` in this process."""
    armed = _Armed(os.environ["CHORALE_REDIS_URL"])
    by_target: dict[str, list[tuple[str, Place]]] = {}
    for name, place in places.items():
        for target in place.targets:
            by_target.setdefault(target, []).append((name, place))
    for target, wanted in by_target.items():
        module, _, path = target.partition(":")
        if module.startswith("audit.") and os.environ.get(PROCESS, "").startswith("chorale."):
            continue  # a worker writes no audit row, and does not load what it takes to
        owner: Any = importlib.import_module(module)
        *classes, attribute = path.split(".")
        for one in classes:
            owner = getattr(owner, one)
        setattr(owner, attribute, _wrapped(getattr(owner, attribute), wanted, armed))
    _act_before_replies(armed)


def _wrapped(call: Any, places: list[tuple[str, Place]], armed: _Armed) -> Any:
    @functools.wraps(call)
    def with_places(*args: Any, **options: Any) -> Any:
        for name, place in places:
            if place.when == "before" and place.only(options, None):
                armed.act(name, args, options)
        between = [name for name, place in places if place.when == "while" and place.only(options, None)]
        if between:
            armed.pending.fault = armed.take(between[0], args, options)
        try:
            result = call(*args, **options)
        finally:
            if between:
                armed.pending.fault = None
        for name, place in places:
            if place.when == "after" and place.only(options, result):
                armed.act(name, args, options, result)
        return result

    return with_places


def _act_before_replies(armed: _Armed) -> None:
    classes = [AbstractConnection, *AbstractConnection.__subclasses__()]
    for one in classes:
        if "read_response" in vars(one):
            read = one.read_response  # type: ignore[attr-defined]

            @functools.wraps(read)
            def reading(*args: Any, _read: Any = read, **options: Any) -> Any:
                fault = getattr(armed.pending, "fault", None)
                if fault is not None:
                    armed.pending.fault = None
                    fault()
                return _read(*args, **options)

            setattr(one, "read_response", reading)  # noqa: B010  # mypy knows no assignment to a method
