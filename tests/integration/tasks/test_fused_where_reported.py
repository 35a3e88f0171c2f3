"""A worker that serves the fusion, too, ends the requests that it completes, without a message."""

from __future__ import annotations

from typing import Any

import pytest
from chorale_client.wire_names import QUEUE_FUSION
from pydantic_core import from_json

from models.plan import Plan
from tasks.request.batch import make_intake
from tests.support.pipelines.one_process import OneProcess

BM25 = "chorale.bm25"


@pytest.mark.parametrize("is_fused_here", [True, False])
def test_the_last_report_of_a_request_ends_it_where_the_worker_serves_the_fusion(
    here: OneProcess, is_fused_here: bool
) -> None:
    ids = [here.submit(text, branches=["bm25"], cache="bypass") for text in ("bread", "repairs")]
    first: Any = here.redis.rpop(BM25)
    make_intake(here.app, [BM25, QUEUE_FUSION] if is_fused_here else [BM25]).take(
        from_json(first), BM25, lambda *_: pytest.fail("the message goes Celery's way")
    )
    ended = [here.resources.callers_ledger.result(request_id) is not None for request_id in ids]
    assert ended == [is_fused_here] * 2
    assert here.redis.llen(QUEUE_FUSION) == (0 if is_fused_here else 2)
    here.work()


def test_a_worker_that_answers_all_branches_and_fuses_them_reads_the_plan_once(
    here: OneProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, plans = Plan.model_validate_json, list[bytes]()

    def noted(plan: bytes) -> Plan:
        plans.append(plan)
        return read(plan)

    monkeypatch.setattr(Plan, "model_validate_json", noted)
    answer = here.ask("who pays for repairs?", cache="bypass")
    assert (answer.status, len(plans)) == ("complete", 1)
