"""A part of the pipeline is missing or slow: each request ends in time, with the rest, and says what was missing; or it is
cancelled, decided by a failure, or hedged.

`tests/integration/ledger` says to the millisecond when a request is joined and ended; `tests/faults` kills the processes.
"""

from __future__ import annotations

import time

import pytest
import redis
import structlog
from celery.result import AsyncResult
from chorale_client import Answer, Chorale
from chorale_client.keys import WAKEUPS, entry_key

from models.tables.audit import RequestRow
from tasks.request.composing.ending import SWEEPER
from tests.integration.tasks.answers import ids, reasons
from tests.support.faults.observers import audited
from tests.support.ledger.audit_rows import branch_result_of
from tests.support.pipelines.one_process import OneProcess
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until


@pytest.mark.parametrize(
    ("name", "detail"),
    [("raises", "RuntimeError: the disk is on fire"), ("out_of_memory", "MemoryError: too much")],
)
def test_a_branch_that_raises_costs_only_itself(failing: OneProcess, name: str, detail: str) -> None:
    answer = failing.ask("ERR-4711", branches=["bm25", name])
    assert (answer.status, reasons(answer)) == ("degraded", [(f"search.{name}", "error")])
    assert (answer.degraded[0].detail, ids(answer)) == (detail, ["error"])


def test_the_log_names_the_reason_for_which_a_stage_failed(failing: OneProcess) -> None:
    with structlog.testing.capture_logs() as logs:
        failing.ask("ERR-4711", branches=["bm25", "raises"], cache="bypass")
    lines = {line["stage"]: (line["status"], line["reason"]) for line in logs if line["event"] == "stage"}
    assert lines["search.raises"] == ("failed", "error")


@pytest.mark.parametrize(("is_started", "reason"), [(True, "timeout"), (False, "not_started")])
def test_a_branch_that_is_too_slow_is_left_out(failing: OneProcess, is_started: bool, reason: str) -> None:
    request_id = failing.submit("ERR-4711", branches=["bm25", "slow"])
    if is_started:
        assert failing.resources.ledger.start(request_id, "slow")
    failing.work("chorale.bm25")
    answer = failing.end_late(request_id)
    assert (answer.status, reasons(answer)) == ("degraded", [("search.slow", reason)])
    assert ids(answer) == ["error"]
    begun = {line.stage: line.first_start_ms is not None for line in answer.stages}
    assert (begun["search.bm25"], begun["search.slow"]) == (False, is_started)


def test_without_any_branch_the_request_fails(failing: OneProcess) -> None:
    answer = failing.end_late(failing.submit("ERR-4711", branches=["bm25", "slow"]))
    assert (answer.status, {reason for _, reason in reasons(answer)}) == ("failed", {"not_started"})


def test_without_a_fusion_worker_the_sweeper_answers(failing: OneProcess) -> None:
    request_id = failing.submit("ERR-4711", branches=["bm25"], cache="bypass")
    failing.work("chorale.bm25")
    answer = failing.end_late(request_id, by=SWEEPER)
    assert (answer.status, reasons(answer)) == ("degraded", [("fuse", "not_started")])
    assert (ids(answer), answer.hits[0].found_by) == (["error"], ("bm25",))


@pytest.mark.slow
def test_sixty_four_questions_that_are_joined_late_have_all_their_hits(failing: OneProcess) -> None:
    words = ["tenant", "pays", "rent", "month", "ends", "contract", "says", "landlord"]
    texts = {f"doc{place}": (f"text {place}", " ".join([*words, str(place)])) for place in range(60)}
    failing.index(texts, namespace="rents")
    questions = [f"{first} {second}" for first in words for second in words]
    request_id = failing.submit(questions, namespace="rents", branches=["bm25", "slow"], top_k=40)
    failing.work("chorale.bm25")
    answer = failing.end_late(request_id)
    assert [len(question.hits) for question in answer.questions] == [40] * 64


def test_with_nothing_running_the_caller_ends_the_request_itself(
    redis_server: RedisServer, redis_client: redis.Redis
) -> None:
    client, began_s = Chorale(redis_server.url), time.monotonic()
    answer = client.retrieve("ERR-4711", timeout_s=0.3)
    waited_s = time.monotonic() - began_s

    assert (answer.status, answer.hits) == ("failed", ())
    assert reasons(answer) == [("plan", "not_started")]
    # It ends the request only when the time is over, by the clock of Redis, which counts whole milliseconds.
    assert waited_s > 0.298
    assert client.answer(answer.request_id) == answer


def row_of(failing: OneProcess, answer: Answer) -> RequestRow:
    failing.drain()
    return audited(failing, answer.request_id)


@pytest.mark.parametrize("is_begun", [True, False], ids=["begun", "not begun"])
def test_a_cancelled_request_is_over_for_whoever_waits_and_for_the_audit(
    failing: OneProcess, is_begun: bool
) -> None:
    request_id = failing.submit("ERR-4711", branches=["bm25", "slow"], cache="bypass")
    if is_begun:
        failing.work("chorale.bm25")
    assert failing.client().cancel(request_id).status == "cancelled"
    failing.work()

    answer = failing.answer(request_id)
    assert (answer.status, answer.hits) == ("cancelled", ())
    assert AsyncResult(request_id, app=failing.app).get(timeout=20)["status"] == "cancelled"
    row = row_of(failing, answer)
    assert (row.status, row.ended_by) == ("cancelled", "client")
    assert failing.redis.exists(entry_key(request_id)) == 0
    assert failing.redis.zscore(WAKEUPS, request_id) is None


def test_the_failure_of_a_required_branch_ends_the_request_and_cancels_the_rest(failing: OneProcess) -> None:
    request_id = failing.submit("ERR-4711", branches=["raises", "slow"], on_missing="fail", cache="bypass")
    failing.work("chorale.raises", "chorale.fusion")
    answer = failing.answer(request_id)
    assert (answer.status, answer.hits) == ("failed", ())
    details = {line.where: (line.reason, line.detail) for line in answer.degraded}
    assert details == {
        "search.raises": ("error", "RuntimeError: the disk is on fire"),
        "search.slow": ("cancelled", "'raises' had failed, which decides the request"),
    }
    row = row_of(failing, answer)
    assert {line.branch: line.reason for line in row.branches} == {"raises": "error", "slow": "cancelled"}


def test_a_hedged_branch_is_answered_by_its_second_attempt(failing: OneProcess) -> None:
    """A worker hangs with the first attempt.  The second attempt is sent after half of the branch's limit."""
    request_id = failing.submit("ERR-4711", branches=["bm25", "slow"], hedge=True, cache="bypass")
    failing.work("chorale.bm25")
    assert failing.resources.ledger.start(request_id, "slow")
    failing.redis.delete("chorale.slow")

    def is_sent_again() -> bool:
        failing.sweep()
        return bool(failing.redis.llen("chorale.slow"))

    until(is_sent_again)
    # The second attempt has time, however busy the machine is.
    failing.redis.hset(entry_key(request_id), "limit:slow", 9_000_000_000_000)
    failing.work()
    answer = failing.answer(request_id)
    assert (answer.status, set(answer.hits[0].found_by)) == ("complete", {"bm25", "slow"})
    row = row_of(failing, answer)
    usual, slow = (line for line in row.stages if line["stage"].startswith("search."))
    assert not {"first_start_ms", "sent_again_ms"} & usual.keys()
    assert slow["first_start_ms"] <= slow["sent_again_ms"] <= slow["start_ms"]
    assert row.plan is not None
    assert slow["sent_again_ms"] >= row.plan["branches"][1]["hedge_after_ms"]
    assert {line.branch: branch_result_of(line).attempt for line in row.branches} == {"bm25": 1, "slow": 2}
