"""One question through three queues, with real workers: what a user gets when nothing is wrong."""

from __future__ import annotations

import pytest
from celery.result import AsyncResult
from chorale_client import (
    Chorale,
    make_request,
)
from chorale_client.keys import SWEEPER

from tasks.request.retrieve import submit
from tests.support.pipelines.pipeline import RunningPipeline


def test_a_question_is_answered_by_all_three_branches(pipeline: RunningPipeline) -> None:
    answer = pipeline.client().retrieve("three months notice of a tenant", cache="bypass", timeout_s=20)

    assert answer.status == "complete"
    assert not answer.degraded
    assert answer.hits[0].document_id == "notice"
    assert set(answer.hits[0].found_by) == {"bm25", "vector", "hyde"}
    assert answer.hits[0].title == "Notice periods"
    assert [line.detail for line in answer.stages if line.stage == "hypothesis"] == ["feedback"]
    assert {f"search.{name}" for name in ("bm25", "vector", "hyde")} <= {line.stage for line in answer.stages}


@pytest.mark.parametrize("k", [1, 2, 3])
def test_each_branch_returns_exactly_k_documents_if_k_is_the_depth(pipeline: RunningPipeline, k: int) -> None:
    """All five documents have a word of the question, and a vector."""
    answer = pipeline.client().retrieve(
        "tenant deposit meter bread landlord", top_k=k, depth=k, cache="bypass", timeout_s=20
    )
    n_out = {line.stage: line.n_out for line in answer.stages if line.stage.startswith("search.")}
    assert n_out == {"search.bm25": k, "search.vector": k, "search.hyde": k}
    assert (len(answer.hits), answer.depth) == (k, k)


def test_async_result_agrees_before_and_after_the_end(pipeline: RunningPipeline) -> None:
    request = make_request("flour, water, salt and patience", cache="bypass", timeout_s=20)
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
    client.retrieve("warm", cache="bypass", timeout_s=20)
    # A sweeper would call the fusion again if a busy worker had not joined a request after a quarter of a second.
    pipeline.redis.set(SWEEPER, "nobody")
    try:
        with pipeline.redis.monitor() as monitor:
            answers = (
                client.retrieve(f"bread {number}", cache="bypass", timeout_s=20) for number in range(100)
            )
            assert [answer.status for answer in answers] == ["complete"] * 100
            pipeline.redis.echo("end of the measurement")
            seen = iter(lambda: monitor.next_command()["command"], "ECHO end of the measurement")
            pushed = sum(command.startswith("LPUSH chorale.fusion") for command in seen)
    finally:
        pipeline.redis.delete(SWEEPER)
    assert pushed == 100
