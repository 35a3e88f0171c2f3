"""What a worker wrote is signed: plans and branch results that somebody else wrote or moved do not verify."""

from __future__ import annotations

import time
from typing import Any

import pytest
from chorale_client import Request
from chorale_client.keys import entry_key
from chorale_client.request_factory import request_json
from redis import Redis
from redis.exceptions import RedisError

from ledger.protocol import BranchDispatch, Chord
from ledger.signing import Signer
from tests.integration.ledger.real import Real
from tests.support.faults.refusals import full
from tests.support.ledger.requests import failed, ok
from tests.support.servers.redis_server import RedisServer


def signed(real: Real) -> Request:
    """A planned request whose plan is signed with its text."""
    request = real.accepted()
    parts = [BranchDispatch(name, f"queue.{name}", 10_000, 5_000) for name in ("bm25", "vector")]
    text = request_json(request).encode()
    assert real.ledger.plan(request.request_id, Chord(text, b"{}", parts, 60, 160)) == "planned"
    return request


def test_a_plan_and_a_branch_result_of_a_worker_verify(real: Real) -> None:
    request = signed(real)
    started = real.ledger.start(request.request_id, "bm25")
    assert started is not None
    assert started.is_signed
    real.ledger.report_all([(request.request_id, ok("bm25"), started, b"")])
    snapshot = real.snapshot(request)
    assert (snapshot.is_signed, snapshot.forged) == (True, frozenset())


@pytest.mark.parametrize("field", ["plan", "request", "mac", "coalescing_key"])
def test_what_a_caller_changes_does_not_verify(real: Real, field: str) -> None:
    request = signed(real)
    real.redis.hset(entry_key(request.request_id), field, '{"v": 1}')
    started = real.ledger.start(request.request_id, "bm25")
    assert started is not None
    assert (started.is_signed, real.snapshot(request).is_signed) == (False, False)


@pytest.mark.parametrize(
    "how", ["by hand", "of another branch", "of another request", "its failure taken back"]
)
def test_a_branch_result_that_no_worker_made_for_this_plan_is_forged(real: Real, how: str) -> None:
    request, other = signed(real), signed(real)
    for one in (request, other):
        for branch in ("bm25", "vector"):
            started = real.ledger.start(one.request_id, branch)
            real.ledger.report_all([(one.request_id, ok(branch), started, b"")])
    key = entry_key(request.request_id)
    mine: Any = real.redis.hgetall(key)
    theirs: Any = real.redis.hgetall(entry_key(other.request_id))
    changes: dict[str, Any] = {
        "by hand": {"result:bm25": b'{"status": "ok"}'},
        "of another branch": {"result:bm25": mine[b"result:vector"], "mac:bm25": mine[b"mac:vector"]},
        "of another request": {"result:bm25": theirs[b"result:bm25"], "mac:bm25": theirs[b"mac:bm25"]},
        "its failure taken back": {"mac:bm25": b""},
    }
    real.redis.hset(key, mapping=changes[how])
    snapshot = real.snapshot(request)
    assert (snapshot.is_signed, snapshot.forged) == (True, frozenset({"bm25"}))


def test_a_report_by_a_process_that_did_not_start_the_part_is_not_forged(real: Real) -> None:
    """A failure that Celery reports, and the answer of another program's task."""
    request = signed(real)
    real.ledger.report_all([(request.request_id, one, None, b"") for one in (failed("bm25"), ok("vector"))])
    snapshot = real.snapshot(request)
    assert (snapshot.is_signed, snapshot.forged) == (True, frozenset())


def test_all_processes_share_a_key_that_the_first_one_made(redis_client: Redis) -> None:
    first, second = Signer(redis_client), Signer(redis_client)
    mac = first.sign(b"a", b"b")
    assert second.verifies(mac, b"a", b"b")
    assert not second.verifies(mac, b"ab", b"")
    assert not second.verifies(b"", b"a", b"b")


def test_a_key_comes_back_into_an_emptied_redis(redis_client: Redis) -> None:
    old = Signer(redis_client)
    mac = old.sign(b"a")
    redis_client.flushall()
    old.keep()
    assert Signer(redis_client).verifies(mac, b"a")


def test_a_process_that_starts_while_redis_is_full_signs_with_the_key_that_is_there(
    own_redis_server: RedisServer,
) -> None:
    with own_redis_server.client() as client:
        mac = Signer(client).sign(b"a")
        with full(own_redis_server):
            new = Signer(client)
            assert new.verifies(mac, b"a")
            assert new.sign(b"a") == mac


def test_a_full_redis_that_lacks_the_key_makes_no_error_that_shows_it(
    own_redis_server: RedisServer,
) -> None:
    """An error of a pipeline has the arguments of its commands, and once the log had the key."""
    with own_redis_server.client() as client:
        signer = Signer(client)
        signer.sign(b"a")
        client.flushall()
        with full(own_redis_server), pytest.raises(RedisError) as refused:
            signer.keep()
    assert signer._keys[0].decode(errors="replace") not in str(refused.value)
    assert str(refused.value).startswith("command not allowed")


def test_a_process_that_started_after_redis_was_emptied_is_believed(
    redis_client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Signer(redis_client)
    before = old.sign(b"a")
    redis_client.flushall()
    new = Signer(redis_client)
    mac = new.sign(b"a")
    monkeypatch.setattr(time, "monotonic", lambda: 1e12)
    assert old.verifies(mac, b"a")
    assert old.verifies(before, b"a"), "signed a moment ago"
    assert new.verifies(old.sign(b"a"), b"a"), "it signs with the new key from now on"


def test_configured_keys_are_rotated_by_a_list_of_two(redis_client: Redis) -> None:
    old, both, new = (Signer(redis_client, keys) for keys in ([b"old"], [b"new", b"old"], [b"new"]))
    assert both.verifies(old.sign(b"a"), b"a")
    assert new.verifies(both.sign(b"a"), b"a")
    assert not new.verifies(old.sign(b"a"), b"a")
    assert redis_client.keys("*") == []


def test_forged_signatures_make_no_process_ask_redis_again_and_again(redis_client: Redis) -> None:
    signer = Signer(redis_client)
    signer.keep()
    redis_client.config_resetstat()
    for _ in range(100):
        assert not signer.verifies(b"x" * 32, b"a")
    stats: Any = redis_client.info("commandstats")
    assert stats.get("cmdstat_get", {"calls": 0})["calls"] <= 1
