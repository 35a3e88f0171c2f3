"""The id of a part names request, branch and attempt, although its message is lost; its report waits for Redis."""

from __future__ import annotations

import pytest
from celery.exceptions import TaskRevokedError
from redis.exceptions import ConnectionError

from tasks.celery_internals.result_backend import _while_redis_returns, failed_part, part_id


@pytest.mark.parametrize(("attempt", "task_id"), [(1, "r-1:bm25"), (2, "r-1:bm25:2")])
def test_a_parts_id_says_its_request_its_branch_and_its_attempt(attempt: int, task_id: str) -> None:
    assert part_id("r-1", "bm25", attempt) == task_id
    branch_result = failed_part(task_id, KeyError("nothing"))
    assert (branch_result.branch, branch_result.attempt, branch_result.reason) == ("bm25", attempt, "error")


def test_a_revoked_part_is_a_cancelled_branch() -> None:
    assert failed_part("r-1:bm25", TaskRevokedError("expired")).reason == "cancelled"


@pytest.mark.parametrize("task_id", ["r-1:bm25:", "r-1:bm25:x", "r-1:bm25:2:3"])
def test_an_odd_task_id_is_read_without_an_error(task_id: str) -> None:
    assert failed_part(task_id, KeyError()).branch == "bm25"


def test_a_report_that_redis_refuses_is_made_again_when_redis_is_back() -> None:
    is_back = iter([False, True])

    def report() -> str:
        if not next(is_back):
            raise ConnectionError("refused")
        return "counted"

    assert _while_redis_returns(report) == "counted"
