"""What Flower shows of requests: one task `chorale.retrieve` for each, under the request's id, with its branches as children.

The process that writes the audit trail tells of requests that have ended, whoever ended them, and of those that have been
in flight for a while.  Workers send nothing, so a request is as fast as without events.

| the request                 | event                 | Flower's state |
|-----------------------------|-----------------------|----------------|
| in flight for LOOK_EVERY_S  | received, started     | STARTED        |
| complete, skipped           | succeeded             | SUCCESS        |
| degraded                    | degraded              | DEGRADED       |
| failed                      | failed                | FAILURE        |
| cancelled                   | revoked               | REVOKED        |
| refused                     | rejected              | REJECTED       |
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, cast

from chorale_client.keys import MOMENTS, entry_key
from chorale_client.words import TASK_RETRIEVE, TASK_SEARCH, EnvelopeStatus, Stage, Status
from pydantic_core import from_json
from redis import Redis
from redis.exceptions import RedisError
from structlog import get_logger

from audit.outbox import Ended
from tasks.celery_surface.event_sender import HEARTBEAT_S, MOST, Event, EventSender, heartbeat
from tasks.celery_surface.result_backend import part_id

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


class RequestEvents:
    def __init__(self, redis: Redis, sender: EventSender, *, with_texts: bool) -> None:
        self._redis = redis
        self._sender = sender
        self._with_texts = with_texts
        self._seen: set[bytes] = set()
        self._told: set[bytes] = set()
        self._processed = 0
        self._waiting: deque[Event] = deque(maxlen=MOST)

    def ended(self, requests: Sequence[Ended]) -> None:
        """Hand these requests to `run`, which tells of them; returns without waiting for the broker."""
        self._processed += len(requests)
        for one in requests:
            try:
                self._waiting.extend(events_of_ended(one, with_texts=self._with_texts))
            except Exception:  # the audit trail must not wait for what Flower cannot show
                log.exception("not shown", request_id=one.request_id)

    def run(self, stop: threading.Event) -> None:
        """Tell of requests, and that this process lives, until `stop`."""
        for turn in count():
            if stop.is_set():
                break
            events = [self._waiting.popleft() for _ in range(len(self._waiting))]
            with suppress(RedisError):  # the sweeper says so
                events += self._in_flight()
            if turn % round(HEARTBEAT_S / LOOK_EVERY_S) == 0:
                events.append(heartbeat(active=len(self._told), processed=self._processed))
            if events:
                self._sender.send(events)
            stop.wait(LOOK_EVERY_S)
        self._sender.close()

    def _in_flight(self) -> Iterator[Event]:
        """The events of requests that were already in flight at the last look, once for each request."""
        now = set(cast("list[bytes]", self._redis.zrange(MOMENTS, 0, MOST_SHOWN - 1)))
        new = (now & self._seen) - self._told
        self._seen, self._told = now, now & (self._told | new)
        for request_id in new:
            with suppress(
                RedisError, ValueError, AttributeError, TypeError
            ):  # a malformed entry: others say so
                name = request_id.decode()
                fields = self._redis.hmget(entry_key(name), "request", "accepted_at")
                raw, accepted_at = cast("list[bytes | None]", fields)
                if raw and accepted_at:
                    yield from events_of_running(
                        name, from_json(raw), int(accepted_at), with_texts=self._with_texts
                    )


def events_of_running(
    request_id: str, request: Mapping[str, Any], accepted_at_ms: int, *, with_texts: bool
) -> Iterator[Event]:
    fields = _about(request_id, request, with_texts=with_texts)
    yield "task-received", {**fields, "timestamp": accepted_at_ms / 1000}
    yield "task-started", {"uuid": request_id, "timestamp": accepted_at_ms / 1000}


def events_of_ended(ended: Ended, *, with_texts: bool) -> Iterator[Event]:
    """The event of the request, and one for each of its branches."""
    request_id, accepted_s, answer = ended.request_id, ended.accepted_at_ms / 1000, ended.answer
    branches = dict(_branches(ended))
    degraded = [f"{one['where']} {one['reason']}" for one in answer.get("degraded") or ()]
    questions = answer.get("questions") or ()
    status = answer["status"]
    ended_s = ended.ended_at_ms / 1000
    result = {
        # First, because a list of tasks shows only the beginning.
        **({"degraded": degraded} if degraded else {}),
        "hits": sum(len(one.get("hits") or ()) for one in questions),
        "ms": ended.ended_at_ms - ended.accepted_at_ms,
        **({"branches": {name: said for name, (said, _) in branches.items()}} if branches else {}),
        "status": status,
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
    for _, event in branches.values():
        yield event


def _about(request_id: str, request: Mapping[str, Any], *, with_texts: bool) -> dict[str, Any]:
    questions = request.get("questions") or ()
    about = {
        "namespace": request.get("namespace"),
        "configuration": request.get("configuration"),
        "timeout_s": request.get("timeout_s"),
        "correlation_id": request.get("correlation_id"),
        "questions": [one.get("text") for one in questions] if with_texts else len(questions),
    }
    kwargs = repr({name: value for name, value in about.items() if value is not None})
    return {"uuid": request_id, "name": TASK_RETRIEVE, "args": "()", "kwargs": kwargs}


def _branches(ended: Ended) -> Iterator[tuple[str, tuple[str, Event]]]:
    """For each branch that was asked its name, its end in a word, and its event."""
    plan = ended.plan or {}
    missing = {one["where"]: one["reason"] for one in ended.answer.get("degraded") or ()}
    begun_ms = {one["stage"]: one.get("start_ms") for one in ended.answer.get("stages") or ()}
    for branch in plan.get("branches", ()) if plan.get("asked") else ():
        name, stage = branch["name"], f"{Stage.SEARCH}.{branch['name']}"
        envelope = ended.envelopes.get(name, {})
        has_failed = envelope.get("status", EnvelopeStatus.FAILED) == EnvelopeStatus.FAILED
        said = envelope.get("reason") or missing.get(stage, "") if has_failed else envelope["status"]
        started_ms = ended.accepted_at_ms + (begun_ms.get(stage) or 0)
        ms, attempt = envelope.get("ms", ended.ended_at_ms - started_ms), envelope.get("attempt", 1)
        hits = sum(len(ranking["hits"]) for ranking in envelope.get("rankings") or ())
        fields = {
            "uuid": part_id(ended.request_id, name, attempt),
            "root_id": ended.request_id,
            "parent_id": ended.request_id,
            "name": TASK_SEARCH.format(kind=branch["kind"]),
            "args": "()",
            "kwargs": repr({"branch": name}),
            "received": ended.accepted_at_ms / 1000,
            "started": started_ms / 1000,
            "timestamp": (started_ms + ms) / 1000,
            "runtime": ms / 1000,
            "result": repr({"status": said, "hits": hits}),
            **({"exception": said} if has_failed else {}),
        }
        yield name, (said, ("task-failed" if has_failed else "task-succeeded", fields))
