"""A caller and a Redis, with nobody who works: what the client does by itself, and what the audit makes of it."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest
from chorale_client import Chorale, Status, UnknownRequest, make_request
from chorale_client.keys import MOMENTS, OUTBOX, OVERLOAD, entry_key, result_key
from chorale_client.ledger import CallersLedger
from chorale_client.words import QUEUE_RETRIEVE
from redis import Redis

from audit.outbox import parse
from audit.rows import Rows, rows_of
from ledger.redis import RedisLedger
from tests.contracts.ledger import TAIL, plan
from tests.redis_server import RedisServer


@pytest.fixture
def client(redis_server: RedisServer, redis_client: Redis) -> Chorale:
    return Chorale(redis_server.url)


def accept(redis_client: Redis, question: str = "bread") -> str:
    """Accepted and never published: the client publishes from a thread, which another test might see."""
    return CallersLedger(redis_client).accept(make_request(question)).request_id


def audited(redis_client: Redis) -> list[Rows]:
    entries = cast("list[tuple[bytes, dict[bytes, bytes]]]", redis_client.xrange(OUTBOX))
    return [rows_of(parse(fields), keep_texts=True) for _, fields in entries]


class TestCancelling:
    def test_whoever_waits_is_told_at_once(self, client: Chorale, redis_client: Redis) -> None:
        request = make_request(["bread", "salt"], timeout_s=30)
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(client.ask, request)
            until = time.monotonic() + 10
            while not redis_client.llen(QUEUE_RETRIEVE):
                assert time.monotonic() < until
                time.sleep(0.01)
            cancelled = client.cancel(request.request_id)
            answer = waiting.result(timeout=10)
        assert answer == cancelled
        assert (answer.status, answer.hits) == (Status.CANCELLED, ())
        assert [question.status for question in answer.questions] == [Status.CANCELLED] * 2
        assert [(one.where, one.reason) for one in answer.degraded] == [("plan", "cancelled")]

    def test_the_audit_says_that_it_was_cancelled(self, client: Chorale, redis_client: Redis) -> None:
        request_id = accept(redis_client)
        plan(RedisLedger(redis_client), make_request("bread", request_id=request_id), "bm25")
        client.cancel(request_id)
        (rows,) = audited(redis_client)
        assert (rows.request["status"], rows.request["ended_by"]) == ("cancelled", "client")
        assert [question["status"] for question in rows.questions] == ["cancelled"]

    def test_cancelled_again_it_has_the_same_answer_and_one_entry_for_the_audit(
        self, client: Chorale, redis_client: Redis
    ) -> None:
        request_id = accept(redis_client)
        assert client.cancel(request_id) == client.cancel(request_id) == client.answer(request_id)
        assert redis_client.xlen(OUTBOX) == 1

    def test_what_has_ended_keeps_its_answer(self, client: Chorale, redis_client: Redis) -> None:
        request_id = accept(redis_client)
        RedisLedger(redis_client).finish(request_id, by="fusion", tail=TAIL, is_complete=True)
        assert client.cancel(request_id).status == "complete"

    def test_an_unknown_id_is_an_error(self, client: Chorale) -> None:
        with pytest.raises(UnknownRequest, match="nothing is known of 'never-sent'"):
            client.cancel("never-sent")

    def test_a_request_that_cannot_be_read_is_cancelled_all_the_same(
        self, client: Chorale, redis_client: Redis
    ) -> None:
        """As by a server whose JSON reader gives up on what ours had read: deeper than 1,000 levels."""
        request_id = accept(redis_client)
        redis_client.hset(entry_key(request_id), "request", "[" * 2_000 + "]" * 2_000)
        answer = client.cancel(request_id)
        assert (answer.status, answer.questions) == ("cancelled", ())

    def test_a_full_redis_can_still_cancel(self, client: Chorale, redis_client: Redis) -> None:
        first, second = accept(redis_client), accept(redis_client, "salt")
        client.cancel(first)  # the script itself is known to the server
        redis_client.config_set("maxmemory", "100kb")
        try:
            assert client.cancel(second).status == "cancelled"
        finally:
            redis_client.config_set("maxmemory", "0")


class TestRefusing:
    def test_the_client_gives_the_refusal_at_once_and_nothing_is_enqueued(
        self, client: Chorale, redis_client: Redis
    ) -> None:
        redis_client.hset(OVERLOAD, "retry_after_ms", 1_500)
        answer = client.retrieve("bread", timeout_s=30)
        assert (answer.status, answer.retry_after_s, answer.hits) == (Status.REFUSED, 1.5, ())
        assert [(one.where, one.reason) for one in answer.degraded] == [("plan", "overload")]
        assert client.answer(answer.request_id) == answer
        left = {OUTBOX, OVERLOAD, result_key(answer.request_id)}
        assert set(redis_client.keys("*")) == {key.encode() for key in left}

    def test_the_audit_says_that_it_was_refused(self, redis_client: Redis) -> None:
        redis_client.hset(OVERLOAD, "retry_after_ms", 1_500)
        accept(redis_client)
        (rows,) = audited(redis_client)
        assert (rows.request["status"], rows.request["ended_by"]) == ("refused", "admission")
        assert [question["status"] for question in rows.questions] == ["refused"]

    def test_queues_that_are_long_and_not_too_long_refuse_nobody(self, redis_client: Redis) -> None:
        redis_client.hset(OVERLOAD, "length:chorale.bm25", 17)
        assert redis_client.zscore(MOMENTS, accept(redis_client)) is not None

    def test_a_refusal_is_kept_like_any_answer(self, redis_client: Redis) -> None:
        redis_client.hset(OVERLOAD, "retry_after_ms", 1_500)
        assert 590_000 < redis_client.pttl(result_key(accept(redis_client))) <= 600_000
