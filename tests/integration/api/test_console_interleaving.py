"""What the console says of pages that two configurations share, and of the feedback on them over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from chorale_client import Answer
from chorale_client.tenants import owned
from pydantic_core import from_json

from records.keys.grant import SCOPES
from tests.integration.api.visitors import visitor
from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.pipeline_files import INTERLEAVED
from tests.support.servers.http_api import HttpApi
from tests.support.servers.redis_server import RedisServer

QUESTION = "Who pays for repairs?"
USER = frozenset(SCOPES) - {"admin"}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[HttpApi, list[Answer]]]:
    """The API, and nine recorded requests of the tenant `acme`."""
    file = tmp_path_factory.mktemp("interleaved") / "pipeline.toml"
    file.write_text(INTERLEAVED, encoding="utf-8")
    with RedisServer() as server, OneProcess(server, pipeline_file=file) as pipeline:
        pipeline.index()
        asked = [pipeline.ask(QUESTION, request_id=owned("acme", f"r{number}")) for number in range(9)]
        pipeline.drain()
        with HttpApi(pipeline.resources.settings) as api:
            yield api, asked


def test_feedback_of_the_keys_tenant_says_which_configuration_is_better(
    answers: tuple[HttpApi, list[Answer]],
) -> None:
    api, asked = answers
    events = [
        {"request_id": answer.request_id, "action": "click", "document_id": teams(answer)["B"][0]}
        for answer in asked
    ]
    with api.client("acme") as client:
        assert client.post("/v1/feedback", json=events).json() == {"recorded": 9}
    with visitor(api, "acme", scopes=USER) as browser:
        live = compared(browser, b="scores")
        assert (live["wins"], live["shared"], live["different"]) == ({"A": 0, "B": 9}, 9, 9)
        # 2^8 / 9 = 28.4 at the eighth.
        assert (live["better"], live["decided_after"]) == ("B", 8)
        assert live["verdict"] in browser.get("/console/compare", params={"b": "scores"}).text
        for others in ({"namespace": "other"}, {"correlation_id": "other"}):
            assert compared(browser, a="rrf", b="scores", **others)["shared"] == 0
        for other in ({"b": "bm25"}, {"a": "scores", "b": "scores"}, {"b": "scores", "k": "10"}):
            assert compared(browser, **other) is None
    with visitor(api, "zenith", scopes=USER) as stranger:
        assert compared(stranger, b="scores")["shared"] == 0


def test_the_page_of_a_request_shows_the_page_as_it_was_and_each_configuration_alone(
    answers: tuple[HttpApi, list[Answer]],
) -> None:
    api, (answer, *_) = answers
    address = f"/console/requests/{answer.request_id}"
    with visitor(api, "acme", scopes=USER) as browser:
        fusion = browser.get(f"{address}.json").json()["fusion"]
        assert (fusion["rival"], fusion["swap"]) == ("scores", None)
        shown = [hit["document_id"] for hit in fusion["hits"]]
        assert shown[: len(answer.hits)] == [hit.document_id for hit in answer.hits]
        html = browser.get(address).text
        assert "Hits of rrf (A) and of scores (B) share this page" in html
        for change in ({"configuration": "rrf"}, {"k": "60"}):
            alone = browser.get(f"{address}.json", params=change).json()["fusion"]
            scores = [hit["score"] for hit in alone["hits"]]
            assert (alone["rival"], scores) == (None, sorted(scores, reverse=True))


def teams(answer: Answer) -> dict[str, list[str]]:
    (line,) = [line for line in answer.stages if line.stage == "interleave"]
    read: dict[str, list[str]] = from_json(line.detail or "")
    return read


def compared(browser: httpx.Client, **parameters: str) -> Any:
    answer = browser.get("/console/compare.json", params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()["live"]
