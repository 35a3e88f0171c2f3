"""What a shadow answered, on the page that compares two configurations."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from chorale_client.tenants import owned

from models.shadow_ids import shadow_id
from tasks.service_calls import ServiceCalls
from tests.integration.api.test_console_requests import USER
from tests.integration.api.visitors import token_of, visitor
from tests.support.pipelines.shadowed import Shadowed, with_shadow
from tests.support.servers.http_api import HttpApi
from tests.support.servers.redis_server import RedisServer


@pytest.fixture(scope="module")
def shadowed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shadowed]:
    """Three requests of one tenant were answered under A, and their shadows under B."""
    file = with_shadow(tmp_path_factory.mktemp("shadowed"))
    with RedisServer() as server, Shadowed(server, pipeline_file=file) as pipeline:
        for number in range(3):
            pipeline.end(owned("acme", f"r{number}"))
        pipeline.answer_shadows()
        yield pipeline


@pytest.fixture(scope="module")
def api(shadowed: Shadowed) -> Iterator[HttpApi]:
    """A sweeper's thread reads the documents that the pages show."""
    stop = threading.Event()
    sweeper = threading.Thread(target=ServiceCalls(shadowed.resources, lambda: None).run, args=(stop,))
    sweeper.start()
    try:
        with HttpApi(shadowed.resources.settings) as api:
            yield api
    finally:
        stop.set()
        sweeper.join()


def compared(browser: httpx.Client, **parameters: str) -> Any:
    answer = browser.get("/console/compare.json", params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()["shadow"]


def test_the_page_shows_what_b_would_have_answered_to_requests_of_the_keys_tenant(api: HttpApi) -> None:
    with visitor(api, "acme", scopes=USER) as browser:
        shadow = compared(browser, b="rrf")
        assert (shadow["a"], shadow["b"], shadow["pairs"], shadow["whole"]) == ("bm25", "rrf", 3, 3)
        page = browser.get("/console/compare", params={"a": "bm25", "b": "rrf"}).text
        assert 'These figures are of the <span class="number">3</span> with two complete answers' in page
        for other in ({"b": "scores"}, {"a": "rrf", "b": "rrf"}, {"b": "rrf", "k": "10"}):
            assert compared(browser, **other) is None
        for others in ({"namespace": "other"}, {"correlation_id": "other"}):
            assert compared(browser, b="rrf", **others) is None
    with visitor(api, "zenith", scopes=USER) as stranger:
        assert compared(stranger, b="rrf") is None


def test_a_judge_sees_the_documents_of_both_answers_under_one_question(
    api: HttpApi, shadowed: Shadowed
) -> None:
    with visitor(api, "acme", scopes=USER) as browser:
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
        for row in map(shadowed.row, (request_id, shadow_id(request_id)))
        if row is not None
    )
    assert theirs - ours
    assert {hit["document_id"] for hit in question["hits"]} == ours | theirs
