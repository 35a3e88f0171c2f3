"""The first terminal write wins: answer, outbox entry and announcement are one step."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import cast

import pytest
from chorale_client import Request
from chorale_client.keys import GROUP_RESULT, OUTBOX, READY, SWEEPER, entry_key, result_key
from chorale_client.protocol_constants import PROTOCOL
from chorale_client.request_factory import request_json
from redis.exceptions import OutOfMemoryError

from tests.integration.ledger.real import Real
from tests.support.ledger.requests import BODY, ok
from tests.support.ledger.script import (
    Script,
    accept,
    answer,
    ends_by,
    finish,
    join,
    lose_entry,
    report,
    wait,
)


def test_the_first_terminal_write_wins(planned: Script) -> None:
    planned >> wait(123) >> finish("complete") << 123 >> finish("degraded", by="sweeper") << None
    planned >> answer() << "complete" >> ends_by() << [("it", "fusion")]
    assert (planned.result() or {})["result"]["took_ms"] == 123


def test_the_outbox_entry_has_every_field_for_the_audit(planned: Script) -> None:
    planned >> report("bm25") >> wait(30) >> finish()
    (fields,) = planned.stepped.outbox()
    assert fields == {
        b"id": b"it",
        b"accepted_at": b"%d" % planned.begin_ms,
        b"ended_at": b"%d" % (planned.begin_ms + 30),
        b"by": b"fusion",
        b"request": request_json(planned.requests["it"]).encode(),
        b"plan": b'{"v":1,"branches":[{"name":"bm25","queue":"queue.bm25"},{"name":"vector","queue":"queue.vector"}]}',
        b"answer": json.dumps((planned.result() or {})["result"], separators=(",", ":")).encode(),
        b"result:bm25": ok("bm25").to_wire(),
    }


def test_a_caller_that_waited_in_vain_ends_a_request_whose_entry_was_lost(script: Script) -> None:
    script >> accept(correlation_id='quoted "id"') >> lose_entry()
    request = script.requests["it"].model_copy(update={"correlation_id": 'quoted "id"'})
    for _ in range(2):
        result = script.callers.finish_failed(request, script.begin_ms)
        ended = json.loads(result)["result"]
        assert (ended["status"], ended["correlation_id"]) == ("failed", 'quoted "id"')
        assert script.callers.result("it") == result
        assert len(script.stepped.outbox()) == 1


@pytest.mark.parametrize(("is_joined", "reason"), [(False, "not_started"), (True, "timeout")])
def test_a_caller_that_waited_in_vain_reports_the_state_of_the_request(
    planned: Script, is_joined: bool, reason: str
) -> None:
    if is_joined:
        planned >> join(force=True)
    ended = json.loads(planned.callers.finish_failed(planned.requests["it"], planned.begin_ms))["result"]
    assert [(one["where"], one["reason"]) for one in ended["degraded"]] == [("fuse", reason)]


# By the server's own clock


@pytest.fixture
def request_(real: Real) -> Request:
    """Returns a request in flight with two branches."""
    return real.accepted("bm25", "vector")


def test_the_end_and_its_outbox_entry_are_one(real: Real, request_: Request) -> None:
    """A reader that sees the answer also finds the entry for the audit."""
    real.ledger.report(request_.request_id, "bm25", ok("bm25"))
    with real.redis.monitor() as monitor:
        real.finish(request_)
        real.redis.echo("the end")
        commands = []
        for seen in monitor.listen():
            if "the end" in seen["command"]:
                break
            commands.append((seen["client_type"], seen["command"].split()[0]))
    inside = [command for kind, command in commands if kind == "lua"]
    assert {"DEL", "SET", "PUBLISH", "XADD"} <= set(inside)
    assert inside.index("DEL") < inside.index("SET"), "deletions first: a full Redis can still end requests"
    ((_, fields),) = cast("list[tuple[bytes, dict[bytes, bytes]]]", real.redis.xrange(OUTBOX))
    assert (fields[b"id"], fields[b"by"]) == (request_.request_id.encode(), b"fusion")
    assert b"result:bm25" in fields
    assert json.loads(fields[b"answer"])["status"] == "complete"


def test_an_end_leaves_only_results_and_outbox_and_its_date_is_the_servers(
    real: Real, request_: Request
) -> None:
    before, _ = real.redis.time()
    real.finish(request_)
    after, _ = real.redis.time()
    done = datetime.fromisoformat(json.loads(real.callers.result(request_.request_id) or b"")["date_done"])
    assert before <= done.timestamp() < after + 1
    assert done.tzinfo == UTC
    real.redis.delete("queue.bm25", "queue.vector", READY)
    request_id = request_.request_id
    results = {result_key(name) for name in (request_id, f"{request_id}:bm25", f"{request_id}:vector")}
    remaining = {OUTBOX, GROUP_RESULT + request_id, *results}
    assert {key.decode() for key in cast("list[bytes]", real.redis.keys("*"))} == remaining


def test_a_full_redis_can_still_end_requests(real: Real, request_: Request) -> None:
    real.ledger.load(request_.request_id)
    # The server knows the script itself.
    real.ledger.finish("unknown", by="fusion", body=BODY, is_complete=True)
    real.redis.config_set("maxmemory", "100kb")
    try:
        with pytest.raises(OutOfMemoryError):
            real.redis.set("anything", "else")
        assert real.finish(request_) is not None
    finally:
        real.redis.config_set("maxmemory", "0")


def test_entries_coalescing_keys_answers_and_leases_expire_by_themselves(real: Real) -> None:
    request = real.accepted("bm25", coalescing_key="chorale:coalescing:x")
    real.ledger.sweep("the only sweeper")
    # The deadline and an hour.
    assert 3_600_000 < real.redis.pttl(entry_key(request.request_id)) <= 3_610_000
    assert 0 < real.redis.pttl("chorale:coalescing:x") <= 10_000
    assert real.redis.pttl(SWEEPER) <= PROTOCOL.sweeper_lease_ms
    real.finish(request)
    assert 0 < real.redis.pttl(result_key(request.request_id)) <= 600_000
