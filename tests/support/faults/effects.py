"""The ways in which Celery can fail a part, and the answer that every user then sees."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from tests.support.faults.moments import join_without_one_branch
from tests.support.faults.observers import Seen, asking, order_by
from tests.support.pipelines.branch_faults import UNKNOWN
from tests.support.pipelines.pipeline import RunningPipeline

AT_ONCE_MS = 15_000
"""Below the twenty seconds of the request, which need not wait for its limit."""


@dataclass(frozen=True, slots=True)
class Case:
    kind: str
    reason: str
    detail: str
    """A part of the answer's detail for the branch."""


REPORTED = {
    "a branch whose task raises": Case("raises", "error", "RuntimeError: the disk is on fire"),
    "a branch whose task leaves by SystemExit": Case("exits", "error", "SystemExit(3)"),
    "a branch that runs out of memory": Case("out_of_memory", "error", "MemoryError: too much"),
    "a branch whose result is no JSON": Case("no_result", "error", "{1, 2}"),
    "a branch that rejects its message": Case("rejects", "error", "not mine"),
    "a branch whose retries are used up": Case("retries_in_vain", "error", "RuntimeError: still on fire"),
    "a branch that no worker knows yet": Case(UNKNOWN, "error", "NotRegistered"),
}
"""Celery reports that the part failed, so the request no longer waits for it."""

UNREPORTED = {
    "a branch that ignores its message": Case("ignores", "timeout", "began and had not answered"),
    "a branch that is retried much later": Case("retries_later", "timeout", "began and had not answered"),
    "a branch that finished and was not counted": Case("not_counted", "timeout", "began and had not"),
    "a branch that became a chord": Case("nested_chord", "timeout", "began and had not answered"),
    "a branch that became a chord which fails": Case("failing_chord", "timeout", "began and had not"),
}
"""Celery reports nothing, so a plain chord never ends; the request ends with the hits of the other branches."""


def failed_or_lost(pipeline: RunningPipeline, case: Case) -> Seen:
    """Asks bm25 and the branch of this case, and checks that it costs only itself.

    A request that waits for a branch of which Celery reports nothing is joined as soon as bm25 has answered.
    """
    healthy = order_by(pipeline, ["bm25"])
    request_id = str(uuid.uuid4())
    future = asking(pipeline, request_id=request_id, branches=["bm25", case.kind], timeout_s=20)
    is_lost = case in UNREPORTED.values()
    if is_lost:
        join_without_one_branch(pipeline, request_id, begun=case.kind)
    answer = future.result(60)
    costs_only_its_branch(answer, case, healthy)
    assert is_lost or answer.answer.took_ms < AT_ONCE_MS
    return answer


def costs_only_its_branch(answer: Seen, case: Case, healthy: list[str]) -> None:
    assert answer.status == "degraded"
    assert answer.missing == [(f"search.{case.kind}", case.reason)]
    assert case.detail in answer.answer.degraded[0].detail
    assert answer.documents == healthy
    assert [row.status for row in answer.audit.branches if row.branch == "bm25"] == ["ok"]
