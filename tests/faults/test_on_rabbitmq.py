"""With RabbitMQ in between, where Celery's own chord is published: the same faults, the same answers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from chorale_client import make_request
from chorale_client.keys import MOMENTS, entry_key
from kombu import Connection

from models.plan import Plan
from tasks.retrieve import submit
from tests import branch_faults
from tests.branch_faults import QUEUE, UNKNOWN, UNSERVED
from tests.faults.effects import AT_ONCE_MS, REPORTED, UNREPORTED, Case, costs_only_its_branch
from tests.faults.readers import order_by, seen, seen_of, unchanged
from tests.pipeline import RunningPipeline
from tests.rabbitmq import own_queues
from tests.redis_server import RedisServer
from tests.services import need

pytestmark = pytest.mark.slow

QUEUES = ("chorale.retrieve", "chorale.bm25", QUEUE, "chorale.fusion")

DIFFERENT = (
    "raises",
    "exits",
    "rejects",
    "retries_in_vain",
    UNKNOWN,
    "ignores",
    "not_counted",
    "failing_chord",
)
"""The kinds whose messages Celery treats in another way where a broker keeps what is not acknowledged."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningPipeline, Connection]]:
    url = need("rabbitmq", "what a broker of its own changes is not tested")
    file = branch_faults.pipeline_file(tmp_path_factory.mktemp("rabbitmq"))
    with (
        RedisServer() as server,
        own_queues(url, (*QUEUES, UNSERVED, branch_faults.FORKED, "chorale.index")) as connection,
        RunningPipeline(
            server,
            queues=QUEUES,
            sweeper=True,
            pipeline_file=file,
            branch_kinds=branch_faults.KINDS,
            preload=branch_faults.PRELOAD,
            environment={"CHORALE_BROKER_URL": url, "CHORALE_BREAKER_FAILURES": "0", "CHORALE_DRAIN": "true"},
        ) as running,
    ):
        running.index()
        yield running, connection


@pytest.fixture
def faulty(broker: tuple[RunningPipeline, Connection]) -> Iterator[RunningPipeline]:
    running, connection = broker
    yield running
    assert [name for name, process in running.processes.items() if process.poll() is not None] == []
    assert order_by(running, ["bm25"]) == ["error"]
    assert running.redis.zcard(MOMENTS) == 0, "a request is left in flight"
    until = time.monotonic() + 10
    while left := {name: count for name in QUEUES if (count := waiting(connection, name))}:
        assert time.monotonic() < until, f"messages were left: {left}"
        time.sleep(0.05)


def waiting(connection: Connection, queue: str) -> int:
    with connection.channel() as channel:
        return int(channel.queue_declare(queue, passive=True).message_count)


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=name) for name, case in (REPORTED | UNREPORTED).items() if case.kind in DIFFERENT],
)
def test_a_part_that_a_plain_chord_fails_for_or_waits_for_costs_its_branch(
    faulty: RunningPipeline, case: Case
) -> None:
    healthy = order_by(faulty, ["bm25"])
    is_reported = case in REPORTED.values()

    found = seen(faulty, branches=["bm25", case.kind], timeout_s=20 if is_reported else 0.7)

    costs_only_its_branch(found, case, healthy)
    assert not is_reported or found.answer.took_ms < AT_ONCE_MS


def test_a_branch_that_answers_at_its_second_attempt_costs_nothing(faulty: RunningPipeline) -> None:
    found = seen(faulty, branches=["bm25", "retries_once"], timeout_s=10)

    assert (found.status, found.missing) == ("complete", [])
    assert found.branches == {"bm25", "retries_once"}


def test_a_branch_whose_messages_the_broker_drops_is_named(
    faulty: RunningPipeline, broker: tuple[RunningPipeline, Connection]
) -> None:
    """As by a time to live on the queue: nobody is told of a message that expired."""
    healthy = order_by(faulty, ["bm25"])
    request = make_request("ERR-4711", branches=["bm25", "unserved"], timeout_s=1.5, cache="bypass")
    submit(faulty.resources, faulty.app.fanout, request)
    dropped = 0
    until = time.monotonic() + 10
    while faulty.redis.exists(entry_key(request.request_id)):
        assert time.monotonic() < until, "it never ended"
        with broker[1].channel() as channel:
            dropped += channel.queue_purge(UNSERVED) or 0
        time.sleep(0.02)
    found = seen_of(faulty, request)

    assert dropped == 3, "sent once, and twice again"
    costs_only_its_branch(found, Case("unserved", "not_started", "no worker took it"), healthy)


def test_parts_and_callbacks_that_come_ten_times_change_nothing(faulty: RunningPipeline) -> None:
    faulty.pause("chorale.bm25")
    try:
        request = make_request("ERR-4711", branches=["bm25", "fickle"], timeout_s=20, cache="bypass")
        submit(faulty.resources, faulty.app.fanout, request)
        plan = Plan.model_validate_json(faulty.redis.hget(entry_key(request.request_id), "plan") or b"")
        for _ in range(10):
            for branch in plan.branches:
                faulty.app.fanout.send_part(request.request_id, branch)
            faulty.app.fanout.send_fuse(request.request_id)
    finally:
        faulty.resume("chorale.bm25")
    found = seen_of(faulty, request)
    with unchanged(faulty, found):
        for branch in plan.branches:
            faulty.app.fanout.send_part(request.request_id, branch)
        faulty.app.fanout.send_fuse(request.request_id)
        order_by(faulty, ["bm25"])

    assert (found.status, found.missing) == ("complete", [])
    assert sorted(row.branch for row in found.audit.branches) == ["bm25", "fickle"]


def task(**headers: Any) -> dict[str, Any]:
    return {"task": "chorale.search.bm25", "id": "nobody-knows-it", "lang": "py", "retries": 0, **headers}


DEEP = "[" * 10_000 + "]" * 10_000
MESSAGES: dict[str, tuple[bytes | str, dict[str, Any]]] = {
    "no JSON": ("hello", {}),
    "pickle": (b"\x80\x04.", {"content_type": "application/x-python-serialize", "headers": task()}),
    "a foreign task": ("[[], {}, {}]", {"headers": task(task="accounts.tasks.send_invoice")}),
    "a body 10,000 levels deep": (DEEP, {"headers": task()}),
    "a body of another shape": ('{"a": 1}', {"headers": task()}),
    "a time limit that is none": ("[[], {}, {}]", {"headers": task(timelimit="soon")}),
    "an id that is an object": ("[[], {}, {}]", {"headers": task(task="x", id={"a": 1})}),
    "a body of 10 MB": (f'[[], {{"branch": "{"x" * 10_000_000}"}}, {{}}]', {"headers": task()}),
}


@pytest.mark.parametrize(("body", "properties"), MESSAGES.values(), ids=MESSAGES)
def test_a_message_that_nobody_can_read_costs_itself_alone(
    faulty: RunningPipeline,
    broker: tuple[RunningPipeline, Connection],
    body: bytes | str,
    properties: dict[str, Any],
) -> None:
    usual = {"content_type": "application/json", "content_encoding": "utf-8"}
    with broker[1].Producer() as producer:
        producer.publish(body, routing_key="chorale.bm25", **{**usual, **properties})

    answer = faulty.client().retrieve("ERR-4711", branches=["bm25"], cache="bypass", timeout_s=20)

    assert (answer.status, answer.hits[0].document_id) == ("complete", "error")
