"""What another process, which has Celery and cannot import Chorale, reads of a request after each step of the ledger."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import pytest
from chorale_client import Request
from chorale_client.keys import GROUP_RESULT, entry_key, result_key

from ledger.protocol import End, UnreportedResult
from tests.integration.ledger.real import Real
from tests.support.ledger.requests import BODY, a_request, failed, ok, plan
from tests.support.pipelines.celery_application import CeleryApplication
from tests.support.servers.redis_server import RedisServer

ANSWER_TTL_MS = 600_000


class Reader:
    """A Celery application with the address of Redis as its broker and result backend."""

    def __init__(self, application: CeleryApplication) -> None:
        self.run = application.run

    def state(self, task_id: str) -> str:
        return str(self.run(f"found = app.AsyncResult({task_id!r}).state"))

    def parts(self, request: Request, *branches: str) -> list[str]:
        return [self.state(f"{request.request_id}:{branch}") for branch in branches]

    def result(self, task_id: str) -> str:
        return str(self.run(f"found = repr(app.AsyncResult({task_id!r}).result)"))

    def child(self, task_id: str) -> Any:
        """Id, class, and ids of the parts of the only child."""
        return self.run(
            # Celery makes objects of the children of a task that has ended, and leaves those of another as they are stored.
            f"(child,) = [result_from_tuple(one, app) for one in app.AsyncResult({task_id!r}).children]\n"
            "found = [child.id, type(child).__name__, [part.id for part in child.children]]"
        )

    def group(self, group_id: str, what: str) -> Any:
        return self.run(f"group = app.GroupResult.restore({group_id!r})\nfound = {what}")


@pytest.fixture(scope="module")
def reader(redis_server: RedisServer) -> Iterator[Reader]:
    environment = dict.fromkeys(["BROKER_URL", "REDIS_URL"], redis_server.celery_url)
    with CeleryApplication(environment, worker=False) as application:
        application.run("from application import app\nfrom celery.result import result_from_tuple")
        yield Reader(application)


def test_a_request_is_pending_until_its_chord_is_sent_and_then_started(reader: Reader, real: Real) -> None:
    request = a_request()
    real.callers.accept(request)
    assert reader.state(request.request_id) == "PENDING"
    plan(real.ledger, request, "bm25", "vector")
    assert reader.state(request.request_id) == "STARTED"
    real.finish(request)
    assert reader.state(request.request_id) == "SUCCESS"


def test_the_child_of_a_running_request_is_the_group_of_its_parts_which_stays_after_the_end(
    reader: Reader, real: Real
) -> None:
    request = real.accepted("bm25", "vector")
    request_id, parts = request.request_id, [f"{request.request_id}:{name}" for name in ("bm25", "vector")]
    assert reader.child(request_id) == [request_id, "GroupResult", parts]
    real.finish(request)
    assert reader.group(request_id, "[part.id for part in group]") == parts


def test_who_reads_an_answer_subscribes_to_nothing_but_its_request(reader: Reader, real: Real) -> None:
    """For a child of an ended task, Celery would subscribe to the results of all its parts."""
    request = real.accepted("bm25", "vector")
    real.finish(request)
    assert reader.run(f"found = app.AsyncResult({request.request_id!r}).children") == []
    channels = cast("list[bytes]", real.redis.pubsub_channels(f"*{request.request_id}:*"))
    assert channels == []


def test_group_and_child_are_stored_as_celery_stores_them(reader: Reader, real: Real) -> None:
    request = real.accepted("bm25", "vector")
    request_id = request.request_id
    ours, child = stored(real, GROUP_RESULT + request_id), stored(real, result_key(request_id))["children"]
    tuples = reader.group(request_id, "[group.as_tuple()]\ngroup.save()")
    assert ours == stored(real, GROUP_RESULT + request_id)
    # A task that starts a chord has the chord's group as its child.
    assert child == tuples


def stored(real: Real, key: str) -> Any:
    raw: Any = real.redis.get(key)
    return json.loads(raw)


def test_a_part_is_pending_then_started_then_ended(reader: Reader, real: Real) -> None:
    request = real.accepted("bm25", "vector", "hyde")
    request_id, branches = request.request_id, ("bm25", "vector", "hyde")
    assert reader.parts(request, *branches) == ["PENDING", "PENDING", "PENDING"]
    real.ledger.start(request_id, "bm25")
    real.ledger.start(request_id, "vector")
    assert reader.parts(request, *branches) == ["STARTED", "STARTED", "PENDING"]
    real.ledger.report(request_id, "bm25", ok("bm25"))
    real.ledger.report(request_id, "vector", failed("vector", "unavailable"))
    assert reader.parts(request, *branches) == ["SUCCESS", "FAILURE", "PENDING"]
    assert reader.result(f"{request_id}:bm25") == "{'status': 'ok'}"
    assert reader.result(f"{request_id}:vector") == "StageFailure('unavailable')"
    counts = reader.group(request_id, "[group.completed_count(), group.failed(), group.ready()]")
    assert counts == [1, True, False]
    real.ledger.report(request_id, "vector", ok("vector", attempt=2))
    assert reader.parts(request, "vector") == ["SUCCESS"], "an answer replaces a failure"


def test_a_failure_whose_second_attempt_is_out_leaves_the_part_started(reader: Reader, real: Real) -> None:
    request = real.accepted("bm25", "vector", hedge_ms=1)
    real.ledger.start(request.request_id, "bm25")
    real.redis.hset(entry_key(request.request_id), "hedged:bm25", 1)
    assert real.ledger.report(request.request_id, "bm25", failed("bm25")) == "waits"
    assert reader.parts(request, "bm25") == ["STARTED"]


@pytest.mark.parametrize(
    ("decisive", "vector", "hyde"),
    [((), "timeout", "not_started"), (("bm25",), "cancelled", "cancelled")],
    ids=["nobody answered in time", "another branch decided"],
)
def test_the_end_of_a_request_is_the_end_of_each_part(
    reader: Reader, real: Real, decisive: tuple[str, ...], vector: str, hyde: str
) -> None:
    request = real.accepted("bm25", "vector", "hyde", decisive=decisive)
    request_id = request.request_id
    real.ledger.start(request_id, "vector")
    real.ledger.report(request_id, "bm25", failed("bm25") if decisive else ok("bm25"))
    real.finish(request)
    assert reader.parts(request, "vector", "hyde") == ["FAILURE", "FAILURE"]
    assert reader.result(f"{request_id}:vector") == f"StageFailure('{vector}')"
    assert reader.result(f"{request_id}:hyde") == f"StageFailure('{hyde}')"
    assert reader.group(request_id, "group.ready()")
    # A worker that comes late changes nothing.
    real.ledger.report(request_id, "vector", ok("vector"))
    assert reader.parts(request, "vector") == ["FAILURE"]


def test_waiters_for_a_part_learn_its_end(real: Real) -> None:
    request = real.accepted("bm25", "vector")
    with real.redis.pubsub(ignore_subscribe_messages=True) as channel:
        channel.psubscribe(result_key(f"{request.request_id}:*"))
        assert channel.get_message(timeout=5) is None
        real.ledger.start(request.request_id, "bm25")
        real.ledger.report(request.request_id, "bm25", ok("bm25"))
        real.finish(request)
        messages = [json.loads(channel.get_message(timeout=5)["data"]) for _ in range(2)]
    ended = [(meta["task_id"].partition(":")[2], meta["status"]) for meta in messages]
    assert ended == [("bm25", "SUCCESS"), ("vector", "FAILURE")]


def test_waiters_for_a_part_of_a_locally_joined_request_learn_its_end(reader: Reader, real: Real) -> None:
    request = real.accepted("bm25", "vector")
    request_id, accepted_at_ms = request.request_id, real.snapshot(request).accepted_at_ms
    results = [UnreportedResult("bm25", "ok", b"{}"), UnreportedResult("vector", "empty", b"{}")]
    with real.redis.pubsub(ignore_subscribe_messages=True) as channel:
        channel.psubscribe(result_key(f"{request_id}:*"))
        assert channel.get_message(timeout=5) is None
        real.ledger.finish_all(
            [End(request_id, BODY, True, unreported=results, accepted_at_ms=accepted_at_ms)], by="fusion"
        )
        messages = [json.loads(channel.get_message(timeout=5)["data"]) for _ in range(2)]
    assert [(meta["status"], meta["result"]) for meta in messages] == [
        ("SUCCESS", {"status": "ok"}),
        ("SUCCESS", {"status": "empty"}),
    ]
    assert reader.parts(request, "bm25", "vector") == ["SUCCESS", "SUCCESS"]
    assert reader.group(request_id, "group.successful()")


def test_a_request_that_waits_for_an_equal_one_is_started_and_has_no_child(
    reader: Reader, real: Real
) -> None:
    real.accepted("bm25", coalescing_key="chorale:coalescing:x")
    follower = real.accepted("bm25", coalescing_key="chorale:coalescing:x")
    assert reader.state(follower.request_id) == "STARTED"
    assert reader.run(f"found = app.AsyncResult({follower.request_id!r}).children") == []
    # The other one is gone, and it gets a chord of its own.
    real.redis.hset(entry_key(follower.request_id), "state", "accepted")
    real.redis.delete("chorale:coalescing:x")
    plan(real.ledger, follower, "bm25")
    assert reader.child(follower.request_id)[2] == [f"{follower.request_id}:bm25"]


def test_a_request_that_an_application_has_revoked_stays_revoked(reader: Reader, real: Real) -> None:
    request = a_request()
    real.callers.accept(request)
    reader.run(f"app.backend.mark_as_revoked({request.request_id!r}, 'revoked')")
    plan(real.ledger, request, "bm25")
    assert reader.state(request.request_id) == "REVOKED"
    real.finish(request)
    assert reader.state(request.request_id) == "REVOKED"


def test_the_clients_take_no_request_that_runs_for_one_that_has_ended(real: Real) -> None:
    request = real.accepted("bm25")
    request_id = request.request_id
    assert real.callers.result(request_id) is None
    assert real.callers.accept(request).state == "planned"
    # Redis lost the entry, so the same question may be asked again under its id.
    real.redis.delete(entry_key(request_id))
    assert real.callers.result(request_id) is None
    assert real.callers.cancel(request_id) is None
    again = real.callers.accept(request)
    assert again.is_new
    ended = real.callers.finish_failed(request, again.accepted_at_ms)
    assert json.loads(ended)["status"] == "SUCCESS"
    assert real.callers.result(request_id) == ended


def test_what_celery_reads_expires_with_the_answer_of_a_request_that_uses_all_of_its_time(real: Real) -> None:
    timeout_ms = 10_000
    request = real.accepted("bm25", "vector", timeout_s=timeout_ms / 1000)
    request_id = request.request_id
    real.ledger.start(request_id, "bm25")
    keys = [result_key(request_id), result_key(f"{request_id}:bm25"), GROUP_RESULT + request_id]
    assert all(ANSWER_TTL_MS < real.redis.pttl(key) <= ANSWER_TTL_MS + timeout_ms for key in keys)
    real.ledger.report(request_id, "bm25", ok("bm25"))
    real.finish(request)
    keys.append(result_key(f"{request_id}:vector"))
    assert all(0 < real.redis.pttl(key) <= ANSWER_TTL_MS + timeout_ms for key in keys)
