"""Draining from the outbox of a real Redis into real tables."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any

import pytest
from chorale_client.keys import CALLBACKS, OUTBOX
from redis import Redis
from sqlalchemy import Engine, func, select

from models.shadow_ids import shadow_id
from models.tables.audit import BranchRow, HitRow, QuestionRow
from records.audit.drainer import GROUP, LONGEST_BACK_OFF_S, Drainer, back_off_s
from records.audit.outbox import UNREADABLE, Ended, outbox_state
from records.audit.queries import show
from tests.support.ledger.audit_entries import ACCEPTED_AT_MS, make_answer, make_request, put, whole_entry
from tests.support.ledger.audit_rows import count
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until


@pytest.fixture
def drainer(redis_client: Redis, engine: Engine) -> Drainer:
    return Drainer(redis_client, engine, keep_texts=True, batch=10)


def unreadable_entries(client: Redis) -> list[dict[bytes, bytes]]:
    entries: Any = client.xrange(UNREADABLE)
    return [fields for _, fields in entries]


def children(engine: Engine) -> list[int]:
    with engine.connect() as connection:
        tables = (QuestionRow, BranchRow, HitRow)
        return [connection.scalar(select(func.count()).select_from(table)) or 0 for table in tables]


def test_ended_requests_leave_the_outbox_batch_by_batch(
    drainer: Drainer, redis_client: Redis, engine: Engine
) -> None:
    put(
        redis_client,
        whole_entry(make_request("one", "two", request_id="a")),
        *(whole_entry() for _ in range(24)),
    )
    assert [drainer.drain_once(1) for _ in range(4)] == [10, 10, 5, 0]
    # 26 questions in all, three branches each request, a hit for each question.
    assert (count(engine), children(engine)) == (25, [26, 75, 26])
    assert redis_client.xlen(OUTBOX) == 0


@pytest.mark.parametrize("batch", [1, 10])
def test_the_first_of_two_ends_of_a_request_is_kept_and_an_id_used_again_later_is_another_request(
    redis_client: Redis, engine: Engine, batch: int
) -> None:
    request, reported = make_request(request_id="twice"), list[Ended]()
    late_answer = make_answer(request, status="failed", questions=[])
    put(redis_client, whole_entry(request), whole_entry(request, answer=late_answer, by="sweeper"))
    drainer = Drainer(redis_client, engine, keep_texts=True, batch=batch, on_written=reported.extend)
    while drainer.drain_once(1):
        pass
    row = show(engine, "twice")
    assert row is not None
    assert (row.status, row.ended_by) == ("complete", "fusion")
    assert [(one.request_id, one.by) for one in reported] == [("twice", "fusion")]
    assert (count(engine), children(engine)) == (1, [1, 3, 1])
    put(redis_client, whole_entry(request, accepted_at_ms=ACCEPTED_AT_MS + 1))
    drainer.drain_once(1)
    assert (count(engine), children(engine)) == (2, [2, 6, 2])


class Interrupted(Redis):
    """A client that calls `meanwhile` before a drainer deletes from the outbox what it has committed."""

    meanwhile: Callable[[], object] | None = None

    def execute_command(self, *args: Any, **options: Any) -> Any:
        if self.meanwhile is not None and (args[0] == "XDEL" or CALLBACKS in args):
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        return super().execute_command(*args, **options)  # type: ignore[no-untyped-call]


@pytest.fixture
def interrupted(redis_server: RedisServer) -> Iterator[Interrupted]:
    with Interrupted.from_url(redis_server.url) as client:
        yield client


@pytest.fixture
def nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a drainer has taken counts as lost at once."""
    monkeypatch.setattr("records.audit.drainer.LOST_AFTER_MS", 0)


class Reporting(Drainer):
    """Reports what it inserts to `reported`, under its name."""

    def __init__(
        self, client: Redis, engine: Engine, reported: list[tuple[str, str]], name: str, batch: int = 64
    ) -> None:
        def report(ended: Sequence[Ended]) -> None:
            reported.extend((name, one.request_id) for one in ended)

        super().__init__(client, engine, keep_texts=True, batch=batch, on_written=report)


def test_drainers_share_the_entries(redis_client: Redis, interrupted: Interrupted, engine: Engine) -> None:
    """The second one drains while the first one has a batch."""
    reported: list[tuple[str, str]] = []
    second = Reporting(redis_client, engine, reported, "second", batch=2)

    def drain() -> None:
        assert [second.drain_once(1) for _ in range(2)] == [1, 0]

    put(redis_client, *(whole_entry(make_request(request_id=name)) for name in "abc"))
    interrupted.meanwhile = drain
    assert Reporting(interrupted, engine, reported, "first", batch=2).drain_once(1) == 2
    assert sorted(reported) == [("first", "a"), ("first", "b"), ("second", "c")]
    assert (count(engine), redis_client.xlen(OUTBOX)) == (3, 0)
    assert redis_client.xpending(OUTBOX, GROUP)["pending"] == 0


@pytest.mark.usefixtures("nothing_is_waited_for")
def test_of_two_drainers_that_take_the_same_entries_only_the_one_that_inserts_a_request_reports_it(
    redis_client: Redis, interrupted: Interrupted, engine: Engine
) -> None:
    reported: list[tuple[str, str]] = []
    second = Reporting(redis_client, engine, reported, "second")

    def drain() -> None:
        put(redis_client, whole_entry(make_request(request_id="c")))
        assert [second.drain_once(1) for _ in range(2)] == [2, 1]

    put(redis_client, *(whole_entry(make_request(request_id=name)) for name in "ab"))
    interrupted.meanwhile = drain
    assert Reporting(interrupted, engine, reported, "first").drain_once(1) == 2
    assert sorted(reported) == [("first", "a"), ("first", "b"), ("second", "c")]
    assert (count(engine), redis_client.xlen(OUTBOX)) == (3, 0)


@pytest.mark.usefixtures("nothing_is_waited_for")
def test_a_callback_is_passed_on_by_another_drainer_if_the_first_dies_after_its_commit(
    redis_client: Redis, interrupted: Interrupted, engine: Engine
) -> None:
    def dies() -> None:
        raise KeyboardInterrupt

    on_end = {"task": "shop.ended", "queue": "shop"}
    put(redis_client, whole_entry(make_request(request_id="told", on_end=on_end)))
    interrupted.meanwhile = dies
    with pytest.raises(KeyboardInterrupt):
        Drainer(interrupted, engine, keep_texts=True).drain_once(1)
    assert (count(engine), redis_client.xlen(OUTBOX), redis_client.xlen(CALLBACKS)) == (1, 1, 0)
    Drainer(redis_client, engine, keep_texts=True).drain_once(1)
    assert (count(engine), redis_client.xlen(OUTBOX), redis_client.xlen(CALLBACKS)) == (1, 0, 1)


def test_an_unreadable_entry_is_set_aside_and_the_others_are_written(
    drainer: Drainer, redis_client: Redis, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    broken = {**whole_entry(make_request(request_id="broken")), "answer": "{"}
    very_many = {f"field {number}": "x" for number in range(20_000)}
    put(redis_client, whole_entry(), broken, {"hello": "world"}, very_many, whole_entry())
    assert drainer.drain_once(1) == 5
    assert (count(engine), redis_client.xlen(OUTBOX)) == (2, 0)
    first, second, third = unreadable_entries(redis_client)
    assert (first[b"id"], first[b"answer"]) == (b"broken", b"{")
    assert b"EOF" in first[b"error"]
    assert second == {b"hello": b"world", b"error": b"no field 'id'"}
    assert (third[b"field 0"], third[b"error"]) == (b"x", b"no field 'id'")
    assert caplog.text.count("set aside") == 3


@pytest.mark.parametrize("what", ["a number", "a rank given twice"])
def test_a_row_that_the_database_refuses_does_not_hold_up_the_others(
    drainer: Drainer, redis_client: Redis, engine: Engine, what: str
) -> None:
    request = make_request(request_id="poisonous")
    answer = make_answer(request)
    (page,) = answer["questions"]
    page.update({"total_matches": 2**70} if what == "a number" else {"hits": page["hits"] * 2})
    put(redis_client, whole_entry(), whole_entry(request, answer=answer), whole_entry())
    assert drainer.drain_once(1) == 3
    assert (count(engine), children(engine)) == (2, [2, 6, 2])
    (entry,) = unreadable_entries(redis_client)
    assert entry[b"id"] == b"poisonous"
    assert redis_client.xlen(OUTBOX) == 0


def test_hostile_texts_come_back_unchanged(drainer: Drainer, redis_client: Redis, engine: Engine) -> None:
    texts = ("'; DROP TABLE chorale_request; --", "(" * 8_192, "日本語 🦜 \u202e", "\x01\x1f\\", "")
    odd = "a\\b\"c'd\te\nf\0g\\u0000h"
    request = make_request(*texts, request_id="hostile", tags={"nul": "a\0b"})
    answer = make_answer(request)
    (hit,) = answer["questions"][0]["hits"]
    hit |= {"score": float("nan"), "document_id": odd, "source_type": odd}
    answer["stages"] = [{"stage": "fuse", "status": "ok", "ms": float("inf")}]
    put(redis_client, whole_entry(request, answer=answer))
    assert drainer.drain_once(1) == 1
    row = show(engine, "hostile")
    assert row is not None
    assert tuple(question.text for question in row.questions) == texts
    assert row.tags == {"nul": "a\0b"}
    assert row.stages[0]["ms"] is None
    hit, without_nul = row.questions[0].hits[0], odd.replace("\0", "\ufffd")
    assert hit.document_id == without_nul
    assert hit.explanation["source_type"].replace("\0", "\ufffd") == without_nul


def test_the_drainer_blocks_in_redis_until_there_is_an_entry(
    redis_client: Redis, redis_server: RedisServer, engine: Engine
) -> None:
    put(redis_client, whole_entry())
    drained: list[int] = []
    with redis_server.client(socket_timeout=None) as own, redis_server.client() as other:
        drainer = Drainer(own, engine, keep_texts=True)
        drainer.drain_once(1)
        waiting = threading.Thread(target=lambda: drained.append(drainer.drain_once(60_000)))
        waiting.start()
        until(lambda: other.info("clients")["blocked_clients"] == 1)
        put(other, whole_entry())
        waiting.join(10)
    assert drained == [1]
    assert count(engine) == 2


@pytest.mark.parametrize("settings", [{"protocol": 3}, {"protocol": 2}, {"decode_responses": True}])
def test_the_drainer_works_with_any_kind_of_client(
    redis_client: Redis, redis_server: RedisServer, engine: Engine, settings: dict[str, int]
) -> None:
    put(redis_client, whole_entry(), {"hello": "world"})
    with redis_server.client(**settings) as client:
        drainer = Drainer(client, engine, keep_texts=True)
        assert [drainer.drain_once(1), drainer.drain_once(1)] == [2, 0]
    assert (count(engine), redis_client.xlen(UNREADABLE)) == (1, 1)


def test_the_outbox_reports_its_length_and_its_age(redis_client: Redis) -> None:
    assert outbox_state(redis_client) == (0, 0.0)
    second, microsecond = redis_client.time()
    redis_client.xadd(OUTBOX, {"a": "b"}, id=f"{1_000 * (second - 90) + microsecond // 1_000}-0")
    put(redis_client, whole_entry())
    entries, oldest_age_s = outbox_state(redis_client)
    assert entries == 2
    assert 90 <= oldest_age_s < 120


def test_pauses_after_failures_grow_differ_and_stay_bounded() -> None:
    assert all(0 < back_off_s(failures) <= LONGEST_BACK_OFF_S for failures in range(1, 2_000))
    # Jitter halves a pause at most, so a pause that is four times longer stays longer.
    assert back_off_s(1) < back_off_s(3) < back_off_s(5) < back_off_s(8)
    assert back_off_s(1_000) >= LONGEST_BACK_OFF_S / 2
    assert len({back_off_s(3) for _ in range(20)}) > 1, "drainers do not retry together"


def test_a_share_of_the_requests_keeps_its_hits_and_candidates_and_every_request_keeps_the_rest(
    redis_client: Redis, engine: Engine
) -> None:
    ids = [f"request-{number}" for number in range(24)]
    put(redis_client, *(whole_entry(make_request(request_id=each)) for each in [*ids, *map(shadow_id, ids)]))
    drainer = Drainer(redis_client, engine, keep_texts=True, hits_share=0.25)
    assert drainer.drain_once(1) == 48
    # The ids whose hash is in the first quarter of all hashes; a shadow has the fate of its request.
    chosen = {each for each in ids if sha256(each.encode()).digest()[0] < 64}
    assert 0 < len(chosen) < 24
    assert (count(engine), children(engine)) == (48, [48, 144, 2 * len(chosen)])
    with engine.connect() as connection:
        sampled = connection.scalars(select(BranchRow.request_id).where(BranchRow.candidates.is_not(None)))
        assert {*sampled} == chosen | {*map(shadow_id, chosen)}
