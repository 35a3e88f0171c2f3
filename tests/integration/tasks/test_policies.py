"""How a request ends otherwise: cancelled, decided by a failure, hedged."""

from __future__ import annotations

import pytest
from celery.result import AsyncResult
from chorale_client import Answer
from chorale_client.keys import WAKEUPS, entry_key

from models.audit_tables import RequestRow
from tests.support.faults.observers import audited
from tests.support.ledger.audit_rows import branch_result_of
from tests.support.pipelines.one_process import OneProcess
from tests.support.waiting import until


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
