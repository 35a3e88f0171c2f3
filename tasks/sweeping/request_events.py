"""What Flower shows of requests: one task `chorale.retrieve` for each, under the request's id, with its branches as children.

The process that writes the audit trail tells of requests that have ended, whoever ended them, and of those that have been
in flight for a while.  Workers send nothing, so a request is as fast as without events.  The events of a branch have the name of
the worker that answered it, so that Flower counts it there.

| the request                 | event                 | Flower's state |
|-----------------------------|-----------------------|----------------|
| in flight for LOOK_EVERY_S  | received              | RECEIVED       |
| and planned                 | started               | STARTED        |
| complete, skipped           | succeeded             | SUCCESS        |
| degraded                    | degraded              | DEGRADED       |
| failed                      | failed                | FAILURE        |
| cancelled                   | revoked               | REVOKED        |
| refused                     | rejected              | REJECTED       |
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, cast

from chorale_client.keys import WAKEUPS, entry_key
from chorale_client.ledger import status_in_flight
from chorale_client.wire_names import TASK_RETRIEVE, TASK_SEARCH, Reason, Status
from pydantic_core import from_json
from redis import Redis
from redis.exceptions import RedisError
from structlog import get_logger

from ledger.breaker_outcomes import encoder_name, store_name
from models.duty import Duty
from monitoring.counting import RequestFigures
from monitoring.ended_requests import ended_branches, log_ended
from monitoring.tracing import open_spans
from records.audit.outbox import Ended
from tasks.celery_internals.event_sender import HEARTBEAT_S, MOST, Event, EventSender, heartbeat
from tasks.celery_internals.result_backend import part_id
from tasks.request.live_pairs import is_shadow
from tasks.wiring.resources import Resources

log = get_logger("chorale.events")


LOOK_EVERY_S = 0.5
MOST_SHOWN = 1_000
"""Maximum number of requests in flight that Flower shows."""

EVENT_OF = {
    Status.DEGRADED: "task-degraded",
    Status.FAILED: "task-failed",
    Status.CANCELLED: "task-revoked",
    Status.REFUSED: "task-rejected",
}


class RequestEvents(Duty):
    """Sends the events of requests.  `branches` are the names of all branches."""

    failing = "requests are not shown"

    def __init__(
        self, redis: Redis, sender: EventSender, *, branches: Iterable[str], with_texts: bool
    ) -> None:
        self._redis = redis
        self._sender = sender
        progress = (f"{field}:{branch}" for branch in branches for field in ("status", "started"))
        self._fields = ["state", "accepted_at", "request", "plan", *progress]
        self._with_texts = with_texts
        self._seen: set[bytes] = set()
        self._shown: dict[bytes, bool] = {}
        """Requests in flight that Flower shows, and whether with their plan."""
        self._processed = 0
        self._turns = count()
        self._waiting: deque[Event] = deque(maxlen=MOST)

    def ended(self, requests: Sequence[Ended]) -> None:
        """Keep the events of these requests for the next look; returns without waiting for the broker."""
        self._processed += len(requests)
        for request in requests:
            try:
                self._waiting.extend(events_of_ended(request, with_texts=self._with_texts))
            except Exception:  # the audit trail must not wait for what Flower cannot show
                log.exception("not shown", request_id=request.request_id)

    def look(self) -> float:
        """Send what is new of requests, and that this process lives."""
        events = [self._waiting.popleft() for _ in range(len(self._waiting))]
        with suppress(RedisError):  # the sweeper says so
            events += self._in_flight()
        if next(self._turns) % round(HEARTBEAT_S / LOOK_EVERY_S) == 0:
            events.append(heartbeat(active=len(self._shown), processed=self._processed))
        if events:
            self._sender.send(events)
        return LOOK_EVERY_S

    def reset(self) -> None:
        self._sender.close()

    def _in_flight(self) -> Iterator[Event]:
        """The events of requests that were already in flight at the last look, once for each request and once for its plan."""
        now = set(cast("list[bytes]", self._redis.zrange(WAKEUPS, 0, MOST_SHOWN - 1)))
        waiting = [request_id for request_id in now & self._seen if not self._shown.get(request_id)]
        self._seen, self._shown = (
            now,
            {request_id: has_plan for request_id, has_plan in self._shown.items() if request_id in now},
        )
        pipe = self._redis.pipeline(transaction=False)
        for request_id in waiting:
            pipe.hmget(entry_key(request_id.decode(errors="replace")), self._fields)
        for request_id, values in zip(waiting, pipe.execute(raise_on_error=False), strict=True):
            with suppress(ValueError, LookupError, AttributeError, TypeError):  # malformed: others say so
                named = zip(self._fields, values, strict=True)
                entry = {name: value.decode() for name, value in named if value is not None}
                if "request" not in entry:
                    continue  # it has ended
                is_new = request_id not in self._shown
                self._shown[request_id] = "plan" in entry
                yield from events_of_running(
                    request_id.decode(), entry, is_new=is_new, with_texts=self._with_texts
                )


def events_of_running(
    request_id: str, entry: Mapping[str, str], *, is_new: bool, with_texts: bool
) -> Iterator[Event]:
    """The events of a request that Flower does not show yet (`is_new`), and of its branches if it is planned.

    `entry` are fields of the ledger's entry.
    """
    request, times = from_json(entry["request"]), {"timestamp": int(entry["accepted_at"]) / 1000}
    result = {"status": status_in_flight(entry["state"]).value, "namespace": request.get("namespace")}
    if is_new:
        about = _about(request_id, request, with_texts=with_texts)
        yield "task-received", {**about, **times, "result": repr(result)}
    if "plan" not in entry:
        return
    branches = from_json(entry["plan"])["branches"]
    progress = {planned["name"]: _progress(planned["name"], entry) for planned in branches}
    yield "task-started", {"uuid": request_id, **times, "result": repr({**result, "branches": progress})}
    for branch in branches:
        result = {"status": progress[branch["name"]]}
        about = {**_about_branch(request_id, branch), "queue": branch.get("queue")}
        yield "task-sent", {**about, **times, "result": repr(result)}


def _progress(branch: str, entry: Mapping[str, str]) -> str:
    """The status of the branch's envelope, `started`, or `not_started`."""
    started = "started" if f"started:{branch}" in entry else Reason.NOT_STARTED.value
    return entry.get(f"status:{branch}", started)


def events_of_ended(ended: Ended, *, with_texts: bool) -> Iterator[Event]:
    """The event of the request, and one for each of its branches."""
    request_id, accepted_s, answer = ended.request_id, ended.accepted_at_ms / 1000, ended.answer
    degraded = [f"{lack['where']} {lack['reason']}" for lack in answer.get("degraded") or ()]
    questions = answer.get("questions") or ()
    status = answer["status"]
    ended_s = ended.ended_at_ms / 1000
    branches = {branch.name: branch.outcome for branch in ended_branches(ended)}
    result = {
        # A list of tasks shows only the beginning.
        "status": status,
        "namespace": ended.request.get("namespace"),
        **({"degraded": degraded} if degraded else {}),
        "hits": sum(len(question.get("hits") or ()) for question in questions),
        "ms": ended.ended_at_ms - ended.accepted_at_ms,
        **({"branches": branches} if branches else {}),
        "by": ended.by,
    }
    times = {"received": accepted_s, "started": accepted_s, "timestamp": ended_s}
    fields = {
        **_about(request_id, ended.request, with_texts=with_texts),
        **times,
        "runtime": ended_s - accepted_s,
        "result": repr(result),
    }
    if status == Status.FAILED:
        fields["exception"] = "; ".join(degraded)
    yield EVENT_OF.get(status, "task-succeeded"), fields
    yield from _events_of_branches(ended)


def _about(request_id: str, request: Mapping[str, Any], *, with_texts: bool) -> dict[str, Any]:
    questions = request.get("questions") or ()
    about = {
        "namespace": request.get("namespace"),
        "configuration": request.get("configuration"),
        "timeout_s": request.get("timeout_s"),
        "correlation_id": request.get("correlation_id"),
        "questions": [question.get("text") for question in questions] if with_texts else len(questions),
    }
    kwargs = repr({name: value for name, value in about.items() if value is not None})
    return {"uuid": request_id, "name": TASK_RETRIEVE, "args": "()", "kwargs": kwargs}


def _about_branch(request_id: str, branch: Mapping[str, Any]) -> dict[str, Any]:
    return {
        # The same for a second attempt: Flower shows a branch as one task.
        "uuid": part_id(request_id, branch["name"]),
        "root_id": request_id,
        "parent_id": request_id,
        "name": TASK_SEARCH.format(kind=branch["kind"]),
    }


def _events_of_branches(ended: Ended) -> Iterator[Event]:
    planned = (ended.plan or {}).get("branches", ())
    for planned_branch, branch in zip(
        planned, ended_branches(ended), strict=False
    ):  # all were asked, or none
        started_ms = ended.accepted_at_ms + (branch.start_ms or 0)
        ms = ended.ended_at_ms - started_ms if branch.ms is None else branch.ms
        about, started = _about_branch(ended.request_id, planned_branch), {"timestamp": started_ms / 1000}
        worker = ended.envelopes.get(branch.name, {}).get("worker")
        by = {"worker": str(worker)} if worker else {}
        if by:
            # Flower counts it as processed.  With a time, Flower would also count it as prefetched until an event `started`.
            yield "task-received", {**about, "received": None, **started, **by}
        again = {"attempt": branch.attempt} if branch.attempt > 1 else {}
        fields = {
            **about,
            **by,
            "received": ended.accepted_at_ms / 1000,
            "started": started_ms / 1000,
            "timestamp": (started_ms + ms) / 1000,
            "runtime": ms / 1000,
            "result": repr({"status": branch.outcome, "hits": branch.hits, **again}),
            **({} if branch.has_answered else {"exception": branch.outcome}),
        }
        yield "task-succeeded" if branch.has_answered else "task-failed", fields


Listener = Callable[[Sequence[Ended]], None]


def listeners(resources: Resources) -> list[Listener]:
    branches = [branch.name for branch in resources.pipeline.branches]
    # A language model has one name for its breaker and its fingerprint.
    models = [*resources.generators.fingerprints, *map(encoder_name, resources.encoders.endpoints)]
    breakers = [*branches, *map(store_name, resources.pipeline.stores), *models]
    spans = open_spans(os.environ, with_texts=resources.settings.log_texts)
    figures = RequestFigures(resources.redis, branches=branches, breakers=breakers)

    def count_callers(ended: Sequence[Ended]) -> None:
        """Nobody waits for a shadow."""
        shadow = resources.pipeline.shadow
        configured = (((request.plan or {}).get("configuration"), request) for request in ended)
        figures.ended(
            [request for name, request in configured if not is_shadow(request.request_id, name, shadow)]
        )

    return [
        log_ended,
        count_callers,
        *([spans.ended] if spans else []),
    ]


def notify(listeners: Sequence[Listener], ended: Sequence[Ended]) -> None:
    """A listener that fails keeps nothing from the others, nor from the audit trail."""
    for listener in listeners:
        try:
            listener(ended)
        except Exception as error:
            log.warning("ended requests not told", error=f"{type(error).__name__}: {error}"[:200])
