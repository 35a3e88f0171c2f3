"""What Flower shows of requests: one task `chorale.retrieve` for each, under the request's id, with its branches as children.

The process that writes the audit trail sends the events of requests that have ended, whoever ended them, and of those that have
been in flight for a while: at each tick it sends what their branches have done since the last one.  Workers send nothing, so a request
is as fast as without events.  The events of a branch have the name of the worker that answered it, so that Flower counts it there.

| the request                 | event                 | Flower's state |
|-----------------------------|-----------------------|----------------|
| in flight for TICK_EVERY_S  | received              | RECEIVED       |
| and planned                 | started               | STARTED        |
| complete, skipped           | succeeded             | SUCCESS        |
| degraded                    | degraded              | DEGRADED       |
| failed                      | failed                | FAILURE        |
| cancelled                   | revoked               | REVOKED        |
| refused                     | rejected              | REJECTED       |

| its branch                  | event                 | Flower's state |
|-----------------------------|-----------------------|----------------|
| planned                     | sent                  | PENDING        |
| begun by a worker           | started               | STARTED        |
| answered                    | received, succeeded   | SUCCESS        |
| failed, or not answered     | received, failed      | FAILURE        |
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count, groupby
from typing import Any, cast

from chorale_client.keys import WAKEUPS, entry_key
from chorale_client.ledger import status_in_flight
from chorale_client.wire_names import TASK_RETRIEVE, TASK_SEARCH, Reason, Status
from pydantic_core import from_json
from redis import Redis
from redis.exceptions import RedisError
from structlog import get_logger

from models.duty import Duty
from monitoring.ended_requests import ended_branches
from records.audit.outbox import Ended
from tasks.celery_internals.event_sender import HEARTBEAT_S, MOST, Event, EventSender, heartbeat
from tasks.celery_internals.result_backend import part_id

log = get_logger("chorale.events")


Fields = Mapping[str, str]
"""Fields of the ledger's entry of a request."""

TICK_EVERY_S = 0.5
MOST_REQUESTS = 1_000
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
        names = list(branches)
        progress = (f"{field}:{branch}" for branch in names for field in ("status", "started"))
        self._progress = ["state", "join_at", *progress]
        branch_results = (f"result:{branch}" for branch in names)
        self._fields = [*self._progress, "accepted_at", "request", "plan", *branch_results]
        self._with_texts = with_texts
        self._seen: set[bytes] = set()
        self._reported: dict[bytes, Fields] = {}
        """Requests in flight that Flower shows, and how far they were then."""
        self._sent: dict[str, str] = {}
        """The last events of branches that have ended while their request is in flight, by task id."""
        self._processed = 0
        self._turns = count()
        self._waiting: deque[list[Event]] = deque(maxlen=MOST)

    def ended(self, requests: Sequence[Ended]) -> None:
        """Keep the events of these requests for the next tick; returns without waiting for the broker."""
        self._processed += len(requests)
        for request in requests:
            try:
                events = events_of_ended(request, with_texts=self._with_texts)
                self._waiting.extend(list(task_events) for _, task_events in groupby(events, key=_task_id))
            except Exception:  # the audit trail must not wait for what Flower cannot show
                log.exception("not shown", request_id=request.request_id)

    def tick(self) -> float:
        """Send what is new of requests, and that this process lives."""
        ended = [self._waiting.popleft() for _ in range(len(self._waiting))]
        events = [event for task_events in ended if not self._is_sent(task_events) for event in task_events]
        with suppress(RedisError):  # the sweeper says so
            events += self._in_flight()
        if next(self._turns) % round(HEARTBEAT_S / TICK_EVERY_S) == 0:
            events.append(heartbeat(active=len(self._reported), processed=self._processed))
        if events:
            self._sender.send(events)
        return TICK_EVERY_S

    def reset(self) -> None:
        self._sender.close()

    def _is_sent(self, task_events: Sequence[Event]) -> bool:
        """Whether Flower has the end of this branch already, and would count it twice."""
        kind, fields = task_events[-1]
        return self._sent.pop(fields["uuid"], None) == kind

    def _in_flight(self) -> Iterator[Event]:
        """What is new of the requests that were already in flight at the last tick."""
        now = set(cast("list[bytes]", self._redis.zrange(WAKEUPS, 0, MOST_REQUESTS - 1)))
        waiting = self._read(now & self._seen, self._progress)
        self._seen, reported = now, {one: fields for one, fields in self._reported.items() if one in now}
        self._reported = reported
        changed = [one for one, fields in waiting.items() if fields != reported.get(one)]
        for request_id, entry in self._read(changed, self._fields).items():
            before = reported.get(request_id)
            reported[request_id] = {name: entry[name] for name in self._progress if name in entry}
            with suppress(ValueError, LookupError, AttributeError, TypeError):  # malformed: others say so
                for kind, fields in events_of_running(
                    request_id.decode(), entry, before=before, with_texts=self._with_texts
                ):
                    if kind in ("task-succeeded", "task-failed"):
                        self._sent[fields["uuid"]] = kind
                    yield kind, fields
        while len(self._sent) > MOST:  # requests whose end was never sent
            del self._sent[next(iter(self._sent))]

    def _read(self, request_ids: Iterable[bytes], names: Sequence[str]) -> dict[bytes, Fields]:
        """These fields of the entries of requests in flight."""
        ids = list(request_ids)
        pipe = self._redis.pipeline(transaction=False)
        for request_id in ids:
            pipe.hmget(entry_key(request_id.decode(errors="replace")), names)
        entries: dict[bytes, Fields] = {}
        for request_id, values in zip(ids, pipe.execute(raise_on_error=False), strict=True):
            if isinstance(values, list) and values[0] is not None:  # else it has ended, or is malformed
                named = zip(names, values, strict=True)
                entries[request_id] = {
                    name: value.decode(errors="replace") for name, value in named if value is not None
                }
        return entries


def events_of_running(
    request_id: str, entry: Fields, *, before: Fields | None, with_texts: bool
) -> Iterator[Event]:
    """What is new of a request in flight, and of its branches if it is planned.

    `before` are the fields that Flower shows; None: it does not show the request.
    """
    request, accepted_ms = from_json(entry["request"]), int(entry["accepted_at"])
    about, times = _about(request_id, request, with_texts=with_texts), {"timestamp": accepted_ms / 1000}
    result = {"status": status_in_flight(entry["state"]).value, "namespace": request.get("namespace")}
    if before is None:
        yield "task-received", {**about, **times, "result": repr(result)}
    if "plan" not in entry:
        return
    before = before or {}
    branches = from_json(entry["plan"])["branches"]
    result["branches"] = {branch["name"]: _progress(branch["name"], entry) for branch in branches}
    is_planned = "join_at" in before
    # A second `started` would change Flower's count of messages that workers hold; `sent` leaves the state STARTED.
    kind, fields = ("task-sent", about) if is_planned else ("task-started", {"uuid": request_id})
    yield kind, {**fields, **times, "result": repr(result)}
    for branch in branches:
        name = branch["name"]
        about = _about_branch(request_id, branch)
        now = {"result": repr({"status": _progress(name, entry)})}
        if not is_planned:
            yield "task-sent", {**about, **times, **now, "queue": branch.get("queue")}
        if (started_ms := entry.get(f"started:{name}")) and f"started:{name}" not in before:
            yield "task-started", {**about, "timestamp": int(started_ms) / 1000, **now}
        if (status := entry.get(f"status:{name}")) and status != before.get(f"status:{name}"):
            yield from _events_of_branches(_ended_branch(request_id, accepted_ms, branch, entry))


def _ended_branch(request_id: str, accepted_ms: int, branch: Mapping[str, Any], entry: Fields) -> Ended:
    """A request of this branch alone, which ends now."""
    plan, name = {"searched": [0], "branches": [branch]}, branch["name"]
    results = {name: from_json(entry[f"result:{name}"])}
    now_ms = max(accepted_ms, round(time.time() * 1000))
    return Ended(request_id, accepted_ms, now_ms, "", {}, plan=plan, branch_results=results, answer={})


def _progress(branch: str, entry: Fields) -> str:
    """The status of the branch's result, `started`, or `not_started`."""
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
        worker = ended.branch_results.get(branch.name, {}).get("worker")
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


def _task_id(event: Event) -> str:
    return str(event[1]["uuid"])
