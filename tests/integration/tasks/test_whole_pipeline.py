"""One question through three queues, with real workers: what a user gets when nothing is wrong."""

from __future__ import annotations

import hashlib

import pytest
from celery.result import AsyncResult
from chorale_client import (
    Chorale,
    make_request,
)
from chorale_client.keys import SWEEPER
from chorale_client.scripts import PRELUDE

from tasks.request.retrieve import submit
from tests.support.pipelines.pipeline import ROOT, RunningPipeline


def test_a_question_is_answered_by_all_three_branches(pipeline: RunningPipeline) -> None:
    answer = pipeline.client().retrieve("three months notice of a tenant", cache="bypass")

    assert answer.status == "complete"
    assert not answer.degraded
    assert answer.hits[0].document_id == "notice"
    assert set(answer.hits[0].found_by) == {"bm25", "vector", "hyde"}
    assert answer.hits[0].title == "Notice periods"
    assert [line.detail for line in answer.stages if line.stage == "hypothesis"] == ["feedback"]
    assert {f"search.{name}" for name in ("bm25", "vector", "hyde")} <= {line.stage for line in answer.stages}


def test_async_result_agrees_before_and_after_the_end(pipeline: RunningPipeline) -> None:
    request = make_request("flour, water, salt and patience", cache="bypass")
    assert AsyncResult(request.request_id, app=pipeline.app).state == "PENDING"

    submit(pipeline.resources, pipeline.app.fanout, request)
    result = AsyncResult(request.request_id, app=pipeline.app)

    assert result.get(timeout=20)["questions"][0]["hits"][0]["document_id"] == "bread"
    assert result.state == "SUCCESS"


def test_a_caller_whose_broker_is_away_is_answered_all_the_same(pipeline: RunningPipeline) -> None:
    """The request is in the ledger: the sweeper sends what the caller could not."""
    client = Chorale(pipeline.server.url, broker_url="redis://127.0.0.1:1/0")
    assert client.retrieve("ERR-4711", cache="bypass", timeout_s=20).status == "complete"


@pytest.mark.slow
def test_for_a_hundred_healthy_requests_the_chord_itself_called_the_callback(
    pipeline: RunningPipeline,
) -> None:
    client = pipeline.client()
    client.retrieve("warm", cache="bypass")
    pipeline.redis.config_resetstat()
    text = (ROOT / "ledger/scripts/call_fusion.lua").read_text(encoding="utf-8")
    call_fusion = hashlib.sha1(f"{PRELUDE}\n{text}".encode()).hexdigest()
    with pipeline.redis.monitor() as monitor:
        answers = [client.retrieve(f"bread {number}", cache="bypass") for number in range(100)]
        pipeline.redis.echo("end of the measurement")
        pushed, script = {"report": 0, "sweep": 0}, ""
        for seen in monitor.listen():
            if "end of the measurement" in seen["command"]:
                break
            # What a script does shows as `lua`, after its call.
            if seen["client_type"] != "lua":
                is_sweepers = SWEEPER in seen["command"] or call_fusion in seen["command"]
                script = "sweep" if is_sweepers else "report"
            elif seen["command"].startswith("LPUSH chorale.fusion"):
                pushed[script] += 1
    assert [answer.status for answer in answers] == ["complete"] * 100
    assert pushed == {"report": 100, "sweep": 0}
