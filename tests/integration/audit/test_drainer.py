"""Draining from the outbox of a real Redis into real tables."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import redis
from chorale_client.keys import OUTBOX
from sqlalchemy import Engine, func, select

from audit.drainer import Drainer
from audit.outbox import UNREADABLE, outbox_state
from audit.queries import show
from models.audit_tables import BranchRow, HitRow, QuestionRow
from tests.support.ledger.audit_entries import ACCEPTED_AT_MS, make_answer, make_request, put, whole_entry
from tests.support.ledger.audit_rows import count
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until


@pytest.fixture
def drainer(redis_client: redis.Redis, engine: Engine) -> Drainer:
    return Drainer(redis_client, engine, keep_texts=True, batch=10)


def kept_aside(client: redis.Redis) -> list[dict[bytes, bytes]]:
    entries: Any = client.xrange(UNREADABLE)
    return [fields for _, fields in entries]


def children(engine: Engine) -> list[int]:
    with engine.connect() as connection:
        tables = (QuestionRow, BranchRow, HitRow)
        return [connection.scalar(select(func.count()).select_from(table)) or 0 for table in tables]


def test_ended_requests_become_rows_and_leave_the_outbox(
    drainer: Drainer, redis_client: redis.Redis, engine: Engine
) -> None:
    put(redis_client, whole_entry(make_request("one", "two", request_id="a")), whole_entry())
    assert drainer.drain_once(1) == 2
    assert count(engine) == 2
    # Three questions in all, three branches each request, a hit for each question.
    assert children(engine) == [3, 6, 3]
    assert redis_client.xlen(OUTBOX) == 0


def test_more_than_a_batch_is_drained_batch_by_batch(
    drainer: Drainer, redis_client: redis.Redis, engine: Engine
) -> None:
    put(redis_client, *(whole_entry() for _ in range(25)))
    assert [drainer.drain_once(1) for _ in range(4)] == [10, 10, 5, 0]
    assert count(engine) == 25


@pytest.mark.parametrize("batch", [1, 10])
def test_the_first_of_two_ends_of_a_request_is_kept(
    redis_client: redis.Redis, engine: Engine, batch: int
) -> None:
    request = make_request(request_id="twice")
    late_answer = make_answer(request, status="failed", questions=[])
    put(redis_client, whole_entry(request), whole_entry(request, answer=late_answer, by="sweeper"))
    drainer = Drainer(redis_client, engine, keep_texts=True, batch=batch)
    while drainer.drain_once(1):
        pass
    kept = show(engine, "twice")
    assert kept is not None
    assert (kept.status, kept.ended_by) == ("complete", "fusion")
    assert (count(engine), children(engine)) == (1, [1, 3, 1])


def test_an_id_that_is_used_again_later_is_another_request(
    drainer: Drainer, redis_client: redis.Redis, engine: Engine
) -> None:
    request = make_request(request_id="again")
    put(redis_client, whole_entry(request), whole_entry(request, accepted_at_ms=ACCEPTED_AT_MS + 1))
    drainer.drain_once(1)
    assert (count(engine), children(engine)) == (2, [2, 6, 2])


def test_an_unreadable_entry_is_set_aside_and_the_others_are_written(
    drainer: Drainer, redis_client: redis.Redis, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    broken = {**whole_entry(make_request(request_id="broken")), "answer": "{"}
    put(redis_client, whole_entry(), broken, {"hello": "world"}, whole_entry())
    assert drainer.drain_once(1) == 4
    assert count(engine) == 2
    assert redis_client.xlen(OUTBOX) == 0
    first, second = kept_aside(redis_client)
    assert (first[b"id"], first[b"answer"]) == (b"broken", b"{")
    assert b"EOF" in first[b"error"]
    assert second == {b"hello": b"world", b"error": b"no field 'id'"}
    assert caplog.text.count("set aside") == 2


def test_the_first_fields_of_an_unreadable_entry_with_very_many_are_kept(
    drainer: Drainer, redis_client: redis.Redis, engine: Engine
) -> None:
    put(redis_client, {f"field {number}": "x" for number in range(20_000)}, whole_entry())
    assert drainer.drain_once(1) == 2
    assert (count(engine), redis_client.xlen(OUTBOX)) == (1, 0)
    (kept,) = kept_aside(redis_client)
    assert (kept[b"field 0"], kept[b"error"]) == (b"x", b"no field 'id'")


def poisonous(what: str) -> dict[str, str]:
    request = make_request(request_id=f"poisonous-{what}")
    answer = make_answer(request)
    if what == "number":
        answer["questions"][0]["total_matches"] = 2**70
    else:
        answer["questions"][0]["hits"] *= 2
    return whole_entry(request, answer=answer)


@pytest.mark.parametrize("what", ["number", "rank"])
def test_a_row_that_the_database_refuses_does_not_hold_up_the_others(
    drainer: Drainer, redis_client: redis.Redis, engine: Engine, what: str
) -> None:
    put(redis_client, whole_entry(), poisonous(what), whole_entry())
    assert drainer.drain_once(1) == 3
    assert (count(engine), children(engine)) == (2, [2, 6, 2])
    (kept,) = kept_aside(redis_client)
    assert kept[b"id"] == f"poisonous-{what}".encode()
    assert redis_client.xlen(OUTBOX) == 0


def test_hostile_texts_come_back_as_they_were(
    drainer: Drainer, redis_client: redis.Redis, engine: Engine
) -> None:
    texts = ("'; DROP TABLE chorale_request; --", "(" * 8_192, "日本語 🦜 \u202e", "\x01\x1f\\", "")
    request = make_request(*texts, request_id="hostile", tags={"nul": "a\0b"})
    answer = make_answer(request)
    answer["questions"][0]["hits"][0]["score"] = float("nan")
    answer["stages"] = [{"stage": "fuse", "status": "ok", "ms": float("inf")}]
    put(redis_client, whole_entry(request, answer=answer))
    assert drainer.drain_once(1) == 1
    kept = show(engine, "hostile")
    assert kept is not None
    assert tuple(question.text for question in kept.questions) == texts
    assert kept.tags == {"nul": "a\0b"}
    assert kept.stages[0]["ms"] is None


def test_the_drainer_blocks_in_redis_until_there_is_an_entry(
    drainer: Drainer, redis_client: redis.Redis, redis_server: RedisServer, engine: Engine
) -> None:
    put(redis_client, whole_entry())
    drainer.drain_once(1)
    drained: list[int] = []
    waiting = threading.Thread(target=lambda: drained.append(drainer.drain_once(2_000)))
    waiting.start()
    with redis_server.client() as other:
        until(lambda: other.info("clients")["blocked_clients"] == 1)
        put(other, whole_entry())
        waiting.join(10)
    assert drained == [1]
    assert count(engine) == 2


@pytest.mark.parametrize("settings", [{"protocol": 3}, {"protocol": 2}, {"decode_responses": True}])
def test_the_drainer_works_with_any_kind_of_client(
    redis_client: redis.Redis, redis_server: RedisServer, engine: Engine, settings: dict[str, int]
) -> None:
    put(redis_client, whole_entry(), {"hello": "world"})
    with redis_server.client(**settings) as client:
        drainer = Drainer(client, engine, keep_texts=True)
        assert [drainer.drain_once(1), drainer.drain_once(1)] == [2, 0]
    assert (count(engine), redis_client.xlen(UNREADABLE)) == (1, 1)


@pytest.mark.slow
def test_a_client_with_a_short_timeout_causes_no_error(
    redis_client: redis.Redis, redis_server: RedisServer, engine: Engine
) -> None:
    with redis_server.client(socket_timeout=4, retry=None) as client:
        assert Drainer(client, engine, keep_texts=True).drain_once(60_000) == 0


def test_the_outbox_tells_its_length_and_its_age(redis_client: redis.Redis) -> None:
    assert outbox_state(redis_client) == (0, 0.0)
    second, microsecond = redis_client.time()
    redis_client.xadd(OUTBOX, {"a": "b"}, id=f"{1_000 * (second - 90) + microsecond // 1_000}-0")
    put(redis_client, whole_entry())
    entries, oldest_age_s = outbox_state(redis_client)
    assert entries == 2
    assert 90 <= oldest_age_s < 120


def test_two_drainers_write_each_request_once(
    redis_client: redis.Redis, redis_server: RedisServer, engine: Engine
) -> None:
    put(redis_client, *(whole_entry() for _ in range(60)))
    start = threading.Barrier(2)

    def drain() -> None:
        with redis_server.client() as client:
            drainer = Drainer(client, engine, keep_texts=True, batch=3)
            start.wait()
            while drainer.drain_once(1):
                pass

    threads = [threading.Thread(target=drain) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (count(engine), children(engine)) == (60, [60, 180, 60])
    assert redis_client.xlen(UNREADABLE) == 0
