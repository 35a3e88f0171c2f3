"""With RabbitMQ, where Celery's own chord is published, the same faults lead to the same answers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from chorale_client import make_request
from chorale_client.keys import DURATIONS, WAKEUPS
from kombu import Connection

from ledger.breakers import FEWEST_DURATIONS
from tasks.request.retrieve import submit
from tests.support.faults.effects import REPORTED, UNREPORTED, Case, costs_only_its_branch, failed_or_lost
from tests.support.faults.moments import join_without_one_branch
from tests.support.faults.observers import asking, order_by, seen_of, unchanged
from tests.support.faults.serving import nobody_has_ended, serving
from tests.support.ledger.audit_rows import branch_result_of
from tests.support.pipelines import branch_faults
from tests.support.pipelines.branch_faults import (
    ATTEMPTS,
    LET_GO,
    PAUSED_QUEUE,
    QUEUE,
    UNKNOWN,
    UNSERVED,
)
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.rabbitmq import own_queues
from tests.support.servers.services import need
from tests.support.waiting import until

QUEUES = ("chorale.retrieve", "chorale.bm25", QUEUE, "chorale.fusion")
OPTIONAL_QUEUES = (UNSERVED, PAUSED_QUEUE, branch_faults.FORKED, "chorale.index")

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
"""The kinds whose messages Celery treats differently if the broker keeps unacknowledged messages."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningPipeline, Connection]]:
    url = need("rabbitmq", "what a broker of its own changes is not tested")
    with (
        own_queues(url, (*QUEUES, *OPTIONAL_QUEUES)) as connection,
        serving(
            QUEUES,
            pipeline_file=branch_faults.pipeline_file(tmp_path_factory.mktemp("rabbitmq")),
            kinds=branch_faults.KINDS,
            preload=branch_faults.PRELOAD,
            # A message of the kind `perishable` is gone long before it is sent again.
            environment={"CHORALE_BROKER_URL": url, "CHORALE_RESEND_AFTER_S": "3"},
        ) as running,
    ):
        yield running, connection


@pytest.fixture
def faulty(broker: tuple[RunningPipeline, Connection]) -> Iterator[RunningPipeline]:
    running, connection = broker
    yield running
    nobody_has_ended(running)
    assert order_by(running, ["bm25"]) == ["error"]
    # What a caller has ended by itself is in flight until the next sweep.
    until(lambda: running.redis.zcard(WAKEUPS) == 0)
    until(lambda: not any(waiting(connection, name) for name in QUEUES))


def waiting(connection: Connection, queue: str) -> int:
    """Returns the number of messages that no worker has taken; 0 if the queue is not declared yet."""
    with connection.channel() as channel:
        try:
            return int(channel.queue_declare(queue, passive=True).message_count)
        except connection.channel_errors:
            return 0


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=name) for name, case in (REPORTED | UNREPORTED).items() if case.kind in DIFFERENT],
)
def test_a_part_that_would_fail_or_hang_a_plain_chord_costs_only_its_branch(
    faulty: RunningPipeline, case: Case
) -> None:
    failed_or_lost(faulty, case)


def test_a_branch_whose_messages_the_broker_drops_is_named(
    faulty: RunningPipeline, broker: tuple[RunningPipeline, Connection]
) -> None:
    """A TTL on the queue drops messages like this, and reports no expired message."""
    healthy = order_by(faulty, ["bm25"])
    request = make_request("ERR-4711", branches=["bm25", "unserved"], timeout_s=20, cache="bypass")
    submit(faulty.resources, faulty.app.fanout, request)
    dropped = 0
    with broker[1].channel() as channel:
        while dropped < 3:
            dropped += channel.queue_purge(UNSERVED) or 0
            time.sleep(0.02)
    join_without_one_branch(faulty, request.request_id)
    answer = seen_of(faulty, request)

    assert dropped + waiting(broker[1], UNSERVED) == 3, "sent once, and twice again"
    costs_only_its_branch(answer, Case("unserved", "not_started", "no worker took it"), healthy)


def expired(connection: Connection) -> None:
    """Returns once a message has expired in the queue PAUSED_QUEUE."""
    until(lambda: waiting(connection, PAUSED_QUEUE) == 1)
    until(lambda: waiting(connection, PAUSED_QUEUE) == 0)


def test_a_branch_whose_messages_expire_in_the_queue_is_named(
    faulty: RunningPipeline, broker: tuple[RunningPipeline, Connection]
) -> None:
    """RabbitMQ treats Celery's `expires` as a TTL, and does not say which message it dropped."""
    healthy = order_by(faulty, ["bm25"])
    future = asking(faulty, branches=["bm25", "perishable"], timeout_s=20)
    expired(broker[1])
    join_without_one_branch(faulty)

    case = Case("perishable", "not_started", "no worker took it")
    costs_only_its_branch(future.result(60), case, healthy)


def test_a_branch_whose_message_expired_in_the_queue_is_sent_again(
    faulty: RunningPipeline, broker: tuple[RunningPipeline, Connection]
) -> None:
    """The queue's only worker was busy until RabbitMQ had dropped the message."""
    faulty.start(PAUSED_QUEUE)
    faulty.wait_ready([PAUSED_QUEUE])
    busy = make_request("ERR-4711", branches=["paused"], timeout_s=20, cache="bypass")
    submit(faulty.resources, faulty.app.fanout, busy)
    until(lambda: faulty.redis.exists(ATTEMPTS + busy.request_id))
    future = asking(faulty, branches=["bm25", "perishable"], timeout_s=20)
    expired(broker[1])
    faulty.redis.lpush(f"{LET_GO}{busy.request_id}:1", 1)
    answer = future.result(60)
    faulty.kill(PAUSED_QUEUE)

    assert (answer.status, answer.branches) == ("complete", {"bm25", "perishable"})


@pytest.fixture
def hedging(faulty: RunningPipeline) -> Iterator[RunningPipeline]:
    """Yields the pipeline with two workers for the branch `paused`, which has always answered within 200 ms."""
    workers = ["first", "second"]
    for name in workers:
        faulty.start(name, queue=PAUSED_QUEUE)
    faulty.wait_ready(workers)
    faulty.redis.delete(f"{DURATIONS}paused")  # those of earlier tests
    faulty.redis.rpush(f"{DURATIONS}paused", *[200] * FEWEST_DURATIONS)
    # Its figures are up to a second old.
    until(lambda: faulty.resources.breakers.p95_ms(["paused"]) == {"paused": 200})
    yield faulty
    for name in workers:
        faulty.kill(name)


@pytest.mark.parametrize(
    ("first", "document"), [(1, "bread"), (2, "repairs")], ids=["the late one", "the hedge"]
)
def test_a_part_that_is_late_is_sent_once_more_and_the_first_answer_wins(
    hedging: RunningPipeline, first: int, document: str
) -> None:
    request = make_request("ERR-4711", branches=["bm25", "paused"], hedge=True, timeout_s=20, cache="bypass")
    release = f"{LET_GO}{request.request_id}:"
    submit(hedging.resources, hedging.app.fanout, request)
    until(lambda: hedging.redis.hlen(ATTEMPTS + request.request_id) == 2)
    hedging.redis.lpush(f"{release}{first}", 1)
    answer = seen_of(hedging, request)
    with unchanged(hedging, answer):
        other = f"{release}{3 - first}"
        hedging.redis.lpush(other, 1)
        until(lambda: not hedging.redis.exists(other))
        order_by(hedging, ["bm25"])

    assert (answer.status, answer.missing) == ("complete", [])
    assert [hit.document_id for hit in answer.answer.hits if "paused" in hit.found_by] == [document]
    attempts = {row.branch: branch_result_of(row).attempt for row in answer.audit.branches}
    assert attempts == {"bm25": 1, "paused": first}
    hedges = hedging.redis.hget(ATTEMPTS + request.request_id, "2")
    assert hedges == b"1", "the hedge was sent more than once more"


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
def test_a_message_that_nobody_can_read_costs_nothing_else(
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
