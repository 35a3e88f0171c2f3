"""What the console says of two configurations on live requests: of pages that both share, and of a shadow."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from chorale_client import Answer
from chorale_client.tenants import owned
from pydantic_core import from_json

from models.shadow_ids import shadow_id
from tasks.service_calls import ServiceCalls
from tests.integration.api.visitors import NOT_OPERATORS, token_of, visitor
from tests.support.pipelines.pipeline_files import INTERLEAVED
from tests.support.pipelines.shadowed import QUESTION, SHADOW, Shadowed
from tests.support.servers.http_api import HttpApi
from tests.support.servers.redis_server import RedisServer


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shadowed]:
    """`rrf` and `scores` share each page of a request under `rrf`, and `scores` is the shadow of `bm25`."""
    file = tmp_path_factory.mktemp("live") / "pipeline.toml"
    file.write_text(INTERLEAVED + SHADOW.format(a="bm25", b="scores"), encoding="utf-8")
    with RedisServer() as server, Shadowed(server, pipeline_file=file) as pipeline:
        yield pipeline


@pytest.fixture(scope="module")
def answers(pipeline: Shadowed) -> list[Answer]:
    """Nine recorded requests of the tenant `acme`, whose pages two configurations share."""
    answers = [pipeline.ask(QUESTION, request_id=owned("acme", f"r{number}")) for number in range(9)]
    pipeline.write()
    return answers


@pytest.fixture(scope="module")
def _shadows(pipeline: Shadowed) -> None:
    """Three requests of the tenant `baker` were answered under `bm25`, and their shadows under `scores`."""
    for number in range(3):
        pipeline.end(owned("baker", f"r{number}"))
    pipeline.answer_shadows()


@pytest.fixture(scope="module")
def api(pipeline: Shadowed) -> Iterator[HttpApi]:
    """A sweeper's thread reads the documents that the pages show."""
    stop = threading.Event()
    sweeper = threading.Thread(target=ServiceCalls(pipeline.resources, lambda: None).run, args=(stop,))
    sweeper.start()
    try:
        with HttpApi(pipeline.resources.settings) as api:
            yield api
    finally:
        stop.set()
        sweeper.join()


def teams(answer: Answer) -> dict[str, list[str]]:
    (line,) = [line for line in answer.stages if line.stage == "interleave"]
    read: dict[str, list[str]] = from_json(line.detail or "")
    return read


def compared(browser: httpx.Client, what: str, **parameters: str) -> Any:
    answer = browser.get("/console/compare.json", params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()[what]


def test_feedback_of_the_keys_tenant_says_which_configuration_is_better(
    api: HttpApi, answers: list[Answer]
) -> None:
    events = [
        {"request_id": answer.request_id, "action": "click", "document_id": teams(answer)["B"][0]}
        for answer in answers
    ]
    with api.client("acme") as client:
        assert client.post("/v1/feedback", json=events).json() == {"recorded": 9}
    with visitor(api, "acme", scopes=NOT_OPERATORS) as browser:
        live = compared(browser, "live", b="scores")
        assert (live["wins"], live["shared"], live["different"]) == ({"A": 0, "B": 9}, 9, 9)
        # 2^8 / 9 = 28.4 at the eighth.
        assert (live["better"], live["decided_after"]) == ("B", 8)
        assert live["verdict"] in browser.get("/console/compare", params={"b": "scores"}).text
        for others in ({"namespace": "other"}, {"correlation_id": "other"}):
            assert compared(browser, "live", a="rrf", b="scores", **others)["shared"] == 0
        for other in ({"b": "bm25"}, {"a": "scores", "b": "scores"}, {"b": "scores", "k": "10"}):
            assert compared(browser, "live", **other) is None
    with visitor(api, "zenith", scopes=NOT_OPERATORS) as stranger:
        assert compared(stranger, "live", b="scores")["shared"] == 0


def test_the_page_of_a_request_shows_the_page_as_it_was_and_each_configuration_alone(
    api: HttpApi, answers: list[Answer]
) -> None:
    answer = answers[0]
    address = f"/console/requests/{answer.request_id}"
    with visitor(api, "acme", scopes=NOT_OPERATORS) as browser:
        fusion = browser.get(f"{address}.json").json()["fusion"]
        assert (fusion["rival"], fusion["swap"]) == ("scores", None)
        ids = [hit["document_id"] for hit in fusion["hits"]]
        assert ids[: len(answer.hits)] == [hit.document_id for hit in answer.hits]
        html = browser.get(address).text
        assert "Hits of rrf (A) and of scores (B) share this page" in html
        for change in ({"configuration": "rrf"}, {"k": "60"}):
            alone = browser.get(f"{address}.json", params=change).json()["fusion"]
            scores = [hit["score"] for hit in alone["hits"]]
            assert (alone["rival"], scores) == (None, sorted(scores, reverse=True))


@pytest.mark.usefixtures("_shadows")
def test_the_page_shows_what_b_would_have_answered_to_requests_of_the_keys_tenant(api: HttpApi) -> None:
    with visitor(api, "baker", scopes=NOT_OPERATORS) as browser:
        shadow = compared(browser, "shadow", b="scores")
        assert (shadow["a"], shadow["b"], shadow["pairs"], shadow["whole"]) == ("bm25", "scores", 3, 3)
        page = browser.get("/console/compare", params={"a": "bm25", "b": "scores"}).text
        assert "with two complete answers" in page
        for other in ({"b": "rrf"}, {"a": "rrf", "b": "scores"}, {"b": "scores", "k": "10"}):
            assert compared(browser, "shadow", **other) is None
        for others in ({"namespace": "other"}, {"correlation_id": "other"}):
            assert compared(browser, "shadow", b="scores", **others) is None
    with visitor(api, "zenith", scopes=NOT_OPERATORS) as stranger:
        assert compared(stranger, "shadow", b="scores") is None


@pytest.mark.usefixtures("_shadows")
def test_a_judge_sees_the_documents_of_both_answers_under_one_question(
    api: HttpApi, pipeline: Shadowed
) -> None:
    with visitor(api, "baker", scopes=NOT_OPERATORS) as browser:
        judged = browser.get("/console/judge.json").json()
        question = judged["question"]
        # A document that only the shadow had is graded as a hit of the shadow.
        hit = next(hit for hit in question["hits"] if hit["of"])
        form = {
            "token": token_of(browser),
            "request": question["request_id"],
            "question": "0",
            f"grade.{hit['document_id']}": "2",
            f"of.{hit['document_id']}": hit["of"],
        }
        assert browser.post("/console/judge", data=form).status_code == 303
        again = browser.get(
            "/console/judge.json", params={"request": shadow_id(question["request_id"])}
        ).json()
        graded = {hit["document_id"]: hit["grade"] for hit in again["question"]["hits"]}
        assert graded[hit["document_id"]] == 2
    assert judged["questions"] == {"judged": 0, "all": 3}
    request_id = question["request_id"]
    ours, theirs = (
        {hit.document_id for hit in row.questions[0].hits[:10]}
        for row in map(pipeline.row, (request_id, shadow_id(request_id)))
        if row is not None
    )
    assert theirs - ours
    assert {hit["document_id"] for hit in question["hits"]} == ours | theirs
