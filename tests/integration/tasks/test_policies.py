"""How a request ends otherwise, with real workers: cancelled, decided by a failure, hedged."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from celery.result import AsyncResult
from chorale_client import make_request
from chorale_client.keys import MOMENTS, entry_key

from audit.database import open_database
from audit.queries import show
from models.audit_tables import RequestRow
from tasks.request.retrieve import submit
from tests.support.ledger.audit_rows import envelope_of
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.waiting import until

pytestmark = pytest.mark.slow


def audited(failing: RunningPipeline, request_id: str) -> RequestRow:
    engine = open_database(failing.resources.settings.audit_database_url)
    found = until(lambda: show(engine, request_id))
    engine.dispose()
    assert found is not None
    return found


def wait_until_started(failing: RunningPipeline, request_id: str, branch: str) -> None:
    until(lambda: failing.redis.hexists(entry_key(request_id), f"started:{branch}"))


def test_a_cancelled_request_is_over_for_whoever_waits_and_for_the_audit(failing: RunningPipeline) -> None:
    client = failing.client()
    options: Any = {"branches": ["bm25", "sleeps"], "cache": "bypass", "timeout_s": 30}
    request, next_request = (make_request("ERR-4711", **options) for _ in range(2))
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(client.ask, request)
        wait_until_started(failing, request.request_id, "sleeps")
        failing.pause("chorale.sleeps")
        try:
            submit(failing.resources, failing.app.fanout, next_request)
            assert client.cancel(next_request.request_id).status == "cancelled"
            assert client.cancel(request.request_id).status == "cancelled"
        finally:
            failing.resume("chorale.sleeps")
        assert waiting.result(timeout=30).status == "cancelled"
    assert AsyncResult(request.request_id, app=failing.app).get(timeout=1)["status"] == "cancelled"
    row = audited(failing, request.request_id)
    assert (row.status, row.ended_by) == ("cancelled", "client")

    # The queue is worked through in order.  What had begun changes nothing, and what had not is never begun.
    after = client.retrieve("ERR-4711", branches=["sleeps"], cache="bypass", timeout_s=30)
    assert after.status == "complete"
    begun = [failing.redis.exists(f"begun:{one}") for one in (after.request_id, request.request_id)]
    assert (begun, failing.redis.exists(f"begun:{next_request.request_id}")) == ([1, 1], 0)
    assert client.answer(request.request_id).status == "cancelled"
    assert failing.redis.exists(entry_key(request.request_id)) == 0
    assert failing.redis.zscore(MOMENTS, request.request_id) is None


def test_the_failure_of_a_required_branch_ends_the_request_and_cancels_the_rest(
    failing: RunningPipeline,
) -> None:
    answer = failing.client().retrieve(
        "ERR-4711", branches=["raises", "sleeps"], on_missing="fail", cache="bypass", timeout_s=30
    )
    assert (answer.status, answer.hits) == ("failed", ())
    assert [(one.where, one.reason) for one in answer.degraded] == [
        ("search.raises", "error"),
        ("search.sleeps", "cancelled"),
    ]
    assert answer.degraded[1].detail == "'raises' had failed, which decides the request"
    row = audited(failing, answer.request_id)
    assert {one.branch: one.reason for one in row.branches} == {"raises": "error", "sleeps": "cancelled"}


def test_a_branch_that_is_not_required_decides_nothing(failing: RunningPipeline) -> None:
    answer = failing.client().retrieve(
        "ERR-4711",
        branches=["bm25", "raises"],
        require=["bm25"],
        on_missing="fail",
        cache="bypass",
        timeout_s=30,
    )
    assert (answer.status, answer.hits[0].document_id) == ("degraded", "error")


def test_a_hedged_branch_is_answered_by_its_second_attempt(failing: RunningPipeline) -> None:
    """The first takes longer than the branch's limit of 3 s; the second is sent after half of it."""
    answer = failing.client().retrieve(
        "ERR-4711", branches=["bm25", "hangs_once"], hedge=True, cache="bypass", timeout_s=30
    )
    assert answer.status == "complete"
    assert "hangs_once" in answer.hits[0].found_by
    row = audited(failing, answer.request_id)
    assert {one.branch: envelope_of(one).attempt for one in row.branches} == {"bm25": 1, "hangs_once": 2}
