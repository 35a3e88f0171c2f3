"""A reranker that scores only a part of the candidates in its time: every surface says so (real workers, a slow server)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from chorale_client import Answer

from tests.integration.api.visitors import visitor
from tests.support.pipelines.pipeline import CORPUS, RunningPipeline
from tests.support.pipelines.pipeline_files import BM25_ALONE
from tests.support.servers.chat_server import ChatServer
from tests.support.servers.http_api import HttpApi
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

pytestmark = pytest.mark.slow

FAST_ENOUGH = 2
"""Passages that the slow server scores in time."""
QUESTION = "bread deposit notice error repairs"
RERANKED = """
[rerankers.slow]
model = "any"
backend = "endpoint"
url = "{url}"
budget_ms = 400
[configurations.plain]
method = "rrf"
[configurations.best]
method = "rrf"
reranker = "slow"
timeout_s = 20
"""


@pytest.fixture(scope="module")
def slow_pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPipeline]:
    ended = threading.Event()

    def scores(handler: Any, body: dict[str, list[str]]) -> None:
        passages = len(body["texts"])
        if passages > FAST_ENOUGH:
            ended.wait(5)
        rows = ",".join(f'{{"index": {at}, "score": {at}}}' for at in range(passages))
        handler.send(200, f"[{rows}]".encode())

    file = tmp_path_factory.mktemp("slow") / "pipeline.toml"
    with ChatServer(scores) as server, RedisServer() as redis:
        file.write_text(
            f'default_configuration = "best"\n{BM25_ALONE}{RERANKED.format(url=server.origin)}', "utf-8"
        )
        with RunningPipeline(redis, sweeper=True, pipeline_file=file) as pipeline:
            pipeline.index()
            yield pipeline
            ended.set()


def scored_in_part(pipeline: RunningPipeline) -> Answer:
    """The first answer for which the worker has learnt how few passages the server scores in time."""
    with closing(pipeline.client()) as client:
        answers = (client.retrieve(QUESTION) for _ in range(20))
        return next(one for one in answers if any(line.detail == "adaptive" for line in one.stages))


def test_an_answer_with_two_of_five_candidates_scored_is_degraded_on_every_surface(
    slow_pipeline: RunningPipeline,
) -> None:
    found = scored_in_part(slow_pipeline)
    missing = [("rerank", "adaptive", f"{FAST_ENOUGH} of {len(CORPUS)} fit the time")]
    assert (found.status, found.questions[0].status) == ("degraded", "degraded")
    assert [(part.where, part.reason, part.detail) for part in found.degraded] == missing
    [line] = [line for line in found.stages if line.stage == "rerank"]
    assert (line.status, line.n_in, line.n_out, line.detail) == ("partial", 5, 2, "adaptive")
    scored = [hit.rerank.stage if hit.rerank else None for hit in found.hits]
    assert scored == ["reranked"] * 2 + ["coarse_only"] * 3

    with HttpApi(slow_pipeline.resources.settings) as api, api.client() as client:

        def by_http() -> dict[str, Any]:
            answer: dict[str, Any] = client.post(
                "/v1/searches", json={"namespace": "default", "questions": [QUESTION]}
            ).json()
            return answer

        answers = (by_http() for _ in range(20))
        answer = next(one for one in answers if one["degraded"][0]["reason"] == "adaptive")
        assert (answer["status"], answer["cached"]) == ("degraded", False)
        assert [(part["where"], part["reason"], part["detail"]) for part in answer["degraded"]] == missing
        with visitor(api) as browser:
            page = f"/console/requests/{answer['request_id']}"
            until(lambda: browser.get(page).status_code == 200, 30)
            recorded = browser.get(f"{page}.json").json()["request"]
            assert recorded["status"] == "degraded"
            assert [part["reason"] for part in recorded["degraded"]] == ["adaptive"]
            assert "<code>rerank</code>: adaptive" in browser.get(page).text
