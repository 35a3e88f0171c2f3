"""A caller and a Redis without workers: what the client does by itself, and what the audit writes."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest
from chorale_client import Chorale, NotEnded, UnknownRequest, make_request
from chorale_client.keys import OUTBOX, OVERLOAD, WAKEUPS, entry_key, result_key
from chorale_client.ledger import CallersLedger, end_of
from redis import Redis

from records.audit.outbox import parse
from records.audit.rows import rows_of
from tests.support.ledger.requests import plan
from tests.support.ledger.single_steps import SingleSteps
from tests.support.servers.redis_server import RedisServer


@pytest.fixture
def client(redis_server: RedisServer, redis_client: Redis) -> Chorale:
    return Chorale(redis_server.url)


def accept(redis_client: Redis, question: str = "bread") -> str:
    """Accept a request without publishing it, since the client publishes from a thread that outlives the test."""
    return CallersLedger(redis_client).accept(make_request(question, timeout_s=60)).request_id


# Cancelling


def test_an_unreadable_request_can_be_cancelled(client: Chorale, redis_client: Redis) -> None:
    """The server's JSON reader refuses more than 1,000 levels, which ours reads."""
    request_id = accept(redis_client)
    redis_client.hset(entry_key(request_id), "request", "[" * 2_000 + "]" * 2_000)
    answer = client.cancel(request_id)
    assert (answer.status, answer.questions) == ("cancelled", ())


def test_a_full_redis_can_still_cancel(client: Chorale, redis_client: Redis) -> None:
    first, second = accept(redis_client), accept(redis_client, "salt")
    client.cancel(first)  # the script itself is known to the server
    redis_client.config_set("maxmemory", "100kb")
    try:
        assert client.cancel(second).status == "cancelled"
    finally:
        redis_client.config_set("maxmemory", "0")


# Refusing


def test_long_queues_below_their_bound_refuse_no_request(redis_client: Redis) -> None:
    redis_client.hset(OVERLOAD, "length:chorale.bm25", 17)
    assert redis_client.zscore(WAKEUPS, accept(redis_client)) is not None


@pytest.mark.parametrize(("status", "by"), [("cancelled", "client"), ("refused", "admission")])
def test_the_audit_says_who_ended_a_request_that_was_cancelled_or_refused(
    client: Chorale, redis_client: Redis, status: str, by: str
) -> None:
    if status == "refused":
        redis_client.hset(OVERLOAD, "retry_after_ms", 1_500)
    request_id = accept(redis_client)
    if status == "cancelled":
        plan(SingleSteps(redis_client), make_request("bread", request_id=request_id), "bm25")
        client.cancel(request_id)
    ((_, fields),) = cast("list[tuple[bytes, dict[bytes, bytes]]]", redis_client.xrange(OUTBOX))
    rows = rows_of(parse(fields), hash_key=None)
    assert (rows.request["status"], rows.request["ended_by"]) == (status, by)
    assert [question["status"] for question in rows.questions] == [status]


# Asking for answers


def test_a_request_that_has_not_ended_is_accepted_and_then_running(
    client: Chorale, redis_client: Redis
) -> None:
    request_id, follower = accept(redis_client), accept(redis_client)
    with pytest.raises(NotEnded, match=f"^{request_id} is accepted; ask again$"):
        client.answer(request_id)
    ledger = SingleSteps(redis_client)
    for one in (request_id, follower):
        plan(ledger, make_request("bread", request_id=one), "bm25", coalescing_key="chorale:coalescing:x")
    ledger.join(request_id, force=True)
    callers = CallersLedger(redis_client)
    assert (callers.state(request_id), callers.state(follower)) == ("fusing", "following")
    for one in (request_id, follower):
        with pytest.raises(NotEnded, match=f"^{one} is running; ask again$"):
            client.answer(one)


def test_an_answer_that_comes_between_two_reads_is_found() -> None:
    steps = end_of("a-request")
    assert next(steps) == [("GET", result_key("a-request")), ("HGET", entry_key("a-request"), "state")]
    assert steps.send([None, None]) == [("GET", result_key("a-request"))]
    with pytest.raises(StopIteration) as stopped:
        steps.send([b"the result"])
    assert stopped.value.value == b"the result"


# Many callers


@pytest.mark.slow
def test_150_threads_that_stay_alive_can_all_ask(redis_server: RedisServer) -> None:
    """Each thread keeps its connection; a pool of redis-py has 100 by default."""
    client = Chorale(redis_server.url, socket_timeout_s=30)
    all_have_called = threading.Barrier(150)

    def ask(number: int) -> None:
        with pytest.raises(UnknownRequest):
            client.answer(f"nobody-sent-{number}")
        all_have_called.wait(60)

    with ThreadPoolExecutor(150) as threads:
        assert list(threads.map(ask, range(150))) == [None] * 150


def test_a_child_process_opens_its_own_subscription(client: Chorale, redis_client: Redis) -> None:
    """For example a web server that loads the application before it forks."""
    client.retrieve("bread", timeout_s=0.3)
    mine = client._local.channel
    with client._listening("the-parents") as channel:
        assert channel is mine, "it is kept from one request to the next"
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        with client._listening("the-childs") as channel:
            os.write(write, b"own" if channel is not mine else b"shared")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 10) == b"own"
    for end in (read, write):
        os.close(end)
