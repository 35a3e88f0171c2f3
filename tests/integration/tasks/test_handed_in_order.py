"""What Redis remembers of messages with documents, for their order and for the room that they take."""

from __future__ import annotations

import json
from typing import cast

import pytest
import redis
from chorale_client import Chorale
from chorale_client.errors import QueueFull, ServiceUnavailable
from chorale_client.index_tickets import MESSAGE_TTL_S, NOT_DONE_FOR_S, next_stamp, stamp_of_message
from chorale_client.keys import HANDED_IN, INDEXED, NOT_DONE, WRITTEN
from chorale_client.publisher import Publisher

from tasks.indexing.message_order import OUTCOME_TTL_S, WriteOrder
from tests.support.servers.redis_server import RedisServer

QUEUE = "chorale.index"
TEA = {"id": "tea", "title": "Tea", "text": "Green tea is brewed at eighty degrees."}


@pytest.fixture
def client(redis_server: RedisServer) -> Chorale:
    return Chorale(redis_server.url)


def test_stamps_keep_rising_when_the_clock_is_set_back(redis_client: redis.Redis) -> None:
    first = next_stamp(redis_client)
    ahead = first + 3_600_000_000
    redis_client.set(HANDED_IN, ahead)
    assert [next_stamp(redis_client) for _ in range(3)] == [ahead + 1, ahead + 2, ahead + 3]


def written_ids(client: redis.Redis) -> list[bytes]:
    return cast("list[bytes]", client.zrange(WRITTEN + "docs", 0, -1))


def test_written_ids_are_remembered_only_while_an_older_message_is_unfinished(
    redis_client: redis.Redis,
) -> None:
    older, later = (stamp_of_message(redis_client, "docs", ticket) for ticket in ("older", "later"))
    WriteOrder(redis_client, "docs", later).keep(["tea"])
    assert written_ids(redis_client) == [b"tea"]
    assert 0 < redis_client.ttl(WRITTEN + "docs") <= NOT_DONE_FOR_S
    assert WriteOrder(redis_client, "docs", older).overtaken(["tea", "never"]) == {"tea"}

    WriteOrder(redis_client, "docs", older).keep(["rent"])
    assert written_ids(redis_client) == [b"tea"]
    redis_client.zrem(NOT_DONE + "docs", "older")
    WriteOrder(redis_client, "docs", later).keep(["milk"])
    assert written_ids(redis_client) == []


def test_written_ids_are_remembered_for_thirty_days_because_of_a_lost_message(
    redis_client: redis.Redis,
) -> None:
    now, month = next_stamp(redis_client), NOT_DONE_FOR_S * 1_000_000
    redis_client.zadd(NOT_DONE + "docs", {"lost": now - month + 1_000_000})
    WriteOrder(redis_client, "docs", now).keep(["tea"])
    assert written_ids(redis_client) == [b"tea"]

    redis_client.zadd(NOT_DONE + "docs", {"lost": now - month - 1})
    WriteOrder(redis_client, "docs", now).keep(["rent"])
    assert written_ids(redis_client) == []


def test_a_message_counts_as_done_when_its_outcome_is_stored_or_may_have_expired(
    redis_client: redis.Redis,
) -> None:
    now, second = stamp_of_message(redis_client, "docs", "here"), 1_000_000

    def is_done(stamp: int, ticket: str | None) -> bool:
        return WriteOrder(redis_client, "docs", stamp, ticket=ticket).is_done()

    assert not is_done(now, "here")
    assert not is_done(now, None)
    assert not is_done(now, "gone"), "Redis was emptied"
    assert is_done(now - (OUTCOME_TTL_S + 60) * second, "gone")
    assert not is_done(now - (NOT_DONE_FOR_S + 60) * second, "gone"), "given up"
    redis_client.set(INDEXED + "done", json.dumps({"handed_in": now}))
    assert is_done(now, "done")
    assert not is_done(now - 1, "done"), "of the same id, used before"


def test_messages_that_wait_for_workers_keep_their_order_for_weeks(
    client: Chorale, redis_client: redis.Redis
) -> None:
    client.upsert("docs", [TEA])
    assert redis_client.ttl(NOT_DONE + "docs") > 4 * 7 * 86_400


def test_a_message_that_may_not_have_been_sent_counts_as_unfinished_for_one_day(
    client: Chorale, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_away(*_: object) -> None:
        raise ConnectionResetError

    monkeypatch.setattr(Publisher, "hand_in", is_away)
    with pytest.raises(ServiceUnavailable):
        client.upsert("docs", [TEA])
    (ticket,) = cast("list[bytes]", redis_client.zrange(NOT_DONE + "docs", 0, -1))
    stamp = cast("float", redis_client.zscore(NOT_DONE + "docs", ticket))
    expires_in_us = stamp + NOT_DONE_FOR_S * 1_000_000 - next_stamp(redis_client)
    assert 0 < expires_in_us <= MESSAGE_TTL_S * 1_000_000


def test_documents_are_refused_before_they_fill_the_redis_of_the_requests() -> None:
    with RedisServer(maxmemory="8mb") as server:
        client, redis_client = Chorale(server.url), server.client()

        def hand_in_all() -> None:
            for number in range(100):
                client.upsert("docs", [TEA | {"text": f"{number:06}" * 20_000}])

        with pytest.raises(QueueFull, match=r"^Redis has no room for these documents: ") as refused:
            hand_in_all()
        waiting = redis_client.llen(QUEUE)
        assert 10 < waiting == refused.value.waiting < 40
        assert f"and {waiting} messages wait for the index workers" in str(refused.value)
        assert redis_client.info("memory")["used_memory"] < 0.75 * 8 * 1024 * 1024
        with pytest.raises(QueueFull):
            client.upsert("docs", [TEA | {"text": "x" * 3_000_000}])
        assert redis_client.zcard(NOT_DONE + "docs") == waiting, "what was not taken is not waited for"
        redis_client.delete(QUEUE)
        assert client.upsert("docs", [TEA])
