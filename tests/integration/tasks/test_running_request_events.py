"""While one branch hangs, Flower shows what each branch has done, and each end once: by Celery's own view of the events."""

from __future__ import annotations

from ast import literal_eval
from collections import Counter
from collections.abc import Iterable
from itertools import count
from typing import Any, cast

import pytest
import redis
from celery.events.state import State
from chorale_client import Request
from chorale_client.keys import OUTBOX, entry_key
from pydantic_core import to_json

from models.branch_result import BranchResult
from records.audit.outbox import parse
from tasks.celery_internals.event_sender import Event
from tasks.sweeping.request_events import RequestEvents
from tests.integration.ledger.real import Real
from tests.support.ledger.requests import ok

BRANCHES = ("bm25", "vector", "hyde")


class Listener:
    """In the place of a sender and of Flower behind it.  `test_event_sender.py` sends the same events through brokers."""

    def __init__(self) -> None:
        self.state, self.counts, self._clock = State(), Counter[tuple[str, str]](), count(1)

    def send(self, events: Iterable[Event]) -> None:
        for kind, fields in events:
            event = {
                "type": kind,
                "timestamp": 0.0,
                "local_received": 0.0,
                "clock": next(self._clock),
                **fields,
            }
            event["hostname"] = event.pop("worker", "sweeper@host")
            self.state.event(event)
            if kind.startswith("task-"):
                self.counts[fields["uuid"], kind] += 1


class Watched:
    """A ledger without workers, and the duty that sends the events of its requests."""

    def __init__(self, client: redis.Redis) -> None:
        self.real = Real(client)
        self.ledger, self.heard = self.real.ledger, Listener()
        sender: Any = self.heard
        self._events = RequestEvents(client, sender, branches=BRANCHES, with_texts=False)

    def planned(self) -> Request:
        request = self.real.accepted(*BRANCHES)
        branches = [{"name": name, "kind": name, "queue": name} for name in BRANCHES]
        plan = to_json({"searched": [0], "branches": branches})
        self.real.redis.hset(entry_key(request.request_id), "plan", plan)
        return request

    def states(self, request: Request) -> dict[str, str]:
        """The states of the request and of each of its branches, after a tick of the duty."""
        self._events.tick()
        names = {"request": request.request_id} | {name: f"{request.request_id}:{name}" for name in BRANCHES}
        tasks = self.heard.state.tasks
        return {name: tasks[task_id].state for name, task_id in names.items() if task_id in tasks}

    def branches(self, request: Request) -> Any:
        return literal_eval(self.heard.state.tasks[request.request_id].result)["branches"]

    def counts(self, task_id: str, *kinds: str) -> list[int]:
        return [self.heard.counts[task_id, f"task-{kind}"] for kind in kinds]

    def end(self, request: Request) -> None:
        self.real.finish(request)
        ((_, fields),) = cast("list[tuple[bytes, dict[bytes, bytes]]]", self.real.redis.xrange(OUTBOX))
        self._events.ended([parse(fields)])


@pytest.fixture
def watched(redis_client: redis.Redis) -> Watched:
    return Watched(redis_client)


def answer(branch: str) -> BranchResult:
    return BranchResult(branch, "ok", worker=f"{branch}@host", ms=2.5)


def test_the_states_are_right_while_a_branch_hangs(watched: Watched) -> None:
    request = watched.planned()
    request_id = request.request_id
    assert watched.states(request) == {}
    assert watched.states(request) == {"request": "STARTED", **dict.fromkeys(BRANCHES, "PENDING")}

    watched.ledger.start(request_id, "vector")
    watched.ledger.report(request_id, "bm25", answer("bm25"))
    states = {"request": "STARTED", "bm25": "SUCCESS", "vector": "STARTED", "hyde": "PENDING"}
    assert watched.states(request) == states
    assert watched.heard.state.tasks[f"{request_id}:bm25"].worker.hostname == "bm25@host"
    assert watched.branches(request) == {"bm25": "ok", "vector": "started", "hyde": "not_started"}

    watched.ledger.report(request_id, "hyde", BranchResult.failed("hyde", "unavailable"))
    assert watched.states(request)["hyde"] == "FAILURE"
    assert watched.branches(request) == {"bm25": "ok", "vector": "started", "hyde": "failed"}
    # Nothing is new.
    before = watched.heard.counts.copy()
    watched.states(request)
    assert watched.heard.counts == before


def test_the_end_is_sent_once(watched: Watched) -> None:
    """Flower counts events for each worker."""
    request = watched.planned()
    request_id = request.request_id
    for _ in range(2):
        watched.states(request)
    watched.ledger.start(request_id, "bm25")
    watched.ledger.report(request_id, "bm25", answer("bm25"))
    watched.states(request)
    watched.ledger.report(request_id, "vector", ok("vector"))
    watched.end(request)
    ended = {"request": "SUCCESS", "bm25": "SUCCESS", "vector": "SUCCESS", "hyde": "FAILURE"}
    assert watched.states(request) == ended
    for name in BRANCHES:
        assert sum(watched.counts(f"{request_id}:{name}", "succeeded", "failed")) == 1, name
    assert watched.counts(request_id, "received", "started", "succeeded") == [1, 1, 1]
