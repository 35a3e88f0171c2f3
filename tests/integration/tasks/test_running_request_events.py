"""While one branch hangs, whoever listens to Celery's events sees what each branch has done, as Flower does."""

from __future__ import annotations

from ast import literal_eval
from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

import pytest
from celery.events.state import State
from chorale_client import Request
from chorale_client.keys import OUTBOX, entry_key
from pydantic_core import to_json

from models.branch_result import BranchResult
from records.audit.outbox import parse
from tasks.celery_internals.event_sender import EventSender, heartbeat
from tasks.sweeping.request_events import RequestEvents
from tests.integration.ledger.real import Real
from tests.integration.tasks.test_event_sender import app_of, heard, wait_until_heard
from tests.support.ledger.requests import ok
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

BRANCHES = ("bm25", "vector", "hyde")
MARK = 1_000


class Watched:
    """A ledger without workers, the duty that tells of its requests, and a listener with Celery's own `State`."""

    def __init__(
        self, real: Real, events: RequestEvents, sender: EventSender, heard: list[dict[str, Any]]
    ) -> None:
        self.real, self.ledger = real, real.ledger
        self._events, self._sender, self._heard = events, sender, heard
        self._looks = 0

    def asked(self) -> Request:
        request = self.real.accepted(*BRANCHES)
        plan = {
            "searched": [0],
            "branches": [{"name": name, "kind": name, "queue": name} for name in BRANCHES],
        }
        self.real.redis.hset(entry_key(request.request_id), "plan", to_json(plan))
        return request

    def told(self, request: Request) -> dict[str, tuple[str, str]]:
        """State and worker of the request and of each of its branches, after a look of the duty."""
        self._events.tick()
        # The listener has everything when it has what comes after.
        self._looks += 1
        self._sender.send([heartbeat(active=1, processed=MARK + self._looks)])
        until(lambda: self._heard[-1].get("processed") == MARK + self._looks)
        self.tasks = State()
        for event in self._heard:
            self.tasks.event(dict(event))
        tasks = self.tasks.tasks
        names = {"request": request.request_id} | {name: f"{request.request_id}:{name}" for name in BRANCHES}
        return {
            name: (tasks[task_id].state, str(tasks[task_id].worker and tasks[task_id].worker.hostname))
            for name, task_id in names.items()
            if task_id in tasks
        }

    def states(self, request: Request) -> dict[str, str]:
        return {name: state for name, (state, _) in self.told(request).items()}

    def result(self, request: Request) -> Any:
        return literal_eval(self.tasks.tasks[request.request_id].result)

    def counts(self, task_id: str) -> Counter[str]:
        return Counter(event["type"] for event in self._heard if event.get("uuid") == task_id)

    def end(self, request: Request) -> None:
        self.real.finish(request)
        ((_, fields),) = cast("list[tuple[bytes, dict[bytes, bytes]]]", self.real.redis.xrange(OUTBOX))
        self._events.ended([parse(fields)])


@pytest.fixture
def watched(own_redis_server: RedisServer) -> Iterator[Watched]:
    app = app_of(own_redis_server.url)
    sender = EventSender(app, "sweeper")
    with own_redis_server.client() as client, heard(app) as found:
        wait_until_heard(sender, found)
        events = RequestEvents(client, sender, branches=BRANCHES, with_texts=False)
        yield Watched(Real(client), events, sender, found)
        sender.close()


def answer(branch: str) -> BranchResult:
    return BranchResult(branch, "ok", worker=f"{branch}@host", ms=2.5)


def test_the_states_are_right_while_a_branch_hangs(watched: Watched) -> None:
    request = watched.asked()
    request_id = request.request_id
    assert watched.told(request) == {}
    pending = dict.fromkeys(BRANCHES, "PENDING")
    assert watched.states(request) == {"request": "STARTED", **pending}

    watched.ledger.start(request_id, "vector")
    watched.ledger.report(request_id, "bm25", answer("bm25"))
    found = watched.told(request)
    assert {name: state for name, (state, _) in found.items()} == {
        "request": "STARTED",
        "bm25": "SUCCESS",
        "vector": "STARTED",
        "hyde": "PENDING",
    }
    assert found["bm25"][1] == "bm25@host"
    assert watched.result(request)["branches"] == {"bm25": "ok", "vector": "started", "hyde": "not_started"}

    watched.ledger.report(request_id, "hyde", BranchResult.failed("hyde", "unavailable"))
    assert watched.states(request)["hyde"] == "FAILURE"
    assert watched.result(request)["branches"] == {"bm25": "ok", "vector": "started", "hyde": "failed"}
    # Nothing is new.
    before = watched.counts(request_id)
    watched.told(request)
    assert watched.counts(request_id) == before


def test_the_end_is_told_once(watched: Watched) -> None:
    """Flower counts events for each worker."""
    request = watched.asked()
    request_id = request.request_id
    watched.told(request)
    watched.told(request)
    watched.ledger.start(request_id, "bm25")
    watched.ledger.report(request_id, "bm25", answer("bm25"))
    watched.told(request)
    watched.ledger.report(request_id, "vector", ok("vector"))
    watched.end(request)
    assert watched.states(request) == {
        "request": "SUCCESS",
        "bm25": "SUCCESS",
        "vector": "SUCCESS",
        "hyde": "FAILURE",
    }
    for name in BRANCHES:
        ended = watched.counts(f"{request_id}:{name}")
        assert ended["task-succeeded"] + ended["task-failed"] == 1, name
    once = watched.counts(request_id)
    assert (once["task-received"], once["task-started"], once["task-succeeded"]) == (1, 1, 1)
