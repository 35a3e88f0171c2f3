"""The page that compares configurations over past requests, asked of a real server over a running pipeline."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from console import compare
from tests.integration.api.visitors import MARKUP, NOT_OPERATORS, record, visitor, wait_listed
from tests.support.servers.http_api import HttpApi

QUESTIONS = ("How is bread baked?", "Who pays when the meter breaks?", f"a list of everything {MARKUP}")


@pytest.fixture(scope="module")
def browser(api: HttpApi) -> Iterator[httpx.Client]:
    """Of a tenant whose three searches are recorded."""
    record(api, "comparing", *QUESTIONS)
    with visitor(api, "comparing", scopes=NOT_OPERATORS) as browser:
        yield browser


@pytest.fixture(scope="module")
def judging(api: HttpApi) -> Iterator[httpx.Client]:
    """Of a tenant with the same searches, who has graded the first hit of one of them."""
    request_id, *_ = record(api, "judging", *QUESTIONS)
    with visitor(api, "judging", scopes=NOT_OPERATORS) as browser:
        best = lists_of(browser, request_id)["bm25"][0]
        event = {"request_id": request_id, "action": "grade", "document_id": best, "grade": 3}
        with api.client("judging") as client:
            assert client.post("/v1/feedback", json=event).status_code == 200
        yield browser


def page(browser: httpx.Client, **parameters: str) -> dict[str, Any]:
    answer = browser.get("/console/compare.json", params=parameters)
    assert answer.status_code == 200, answer.text
    data: dict[str, Any] = answer.json()
    return data


def lists_of(browser: httpx.Client, request_id: str) -> dict[str, list[str]]:
    """By branch, what the request page shows as its list."""
    fusion = browser.get(f"/console/requests/{request_id}.json").json()["fusion"]
    return {branch["branch"]: [hit["document_id"] for hit in branch["hits"]] for branch in fusion["lists"]}


def test_the_page_says_what_bm25_alone_would_have_answered(browser: httpx.Client) -> None:
    data = page(browser, b="bm25")
    comparison = data["comparison"]
    any_request = {"namespace": None, "correlation_id": None, "n": 100, "questions": "recent"}
    assert data["form"] == {"a": None, "b": "bm25", **any_request}
    assert (data["requests"], comparison["questions"], comparison["left_out"]) == (3, 3, {})
    moved = comparison["moved"]
    assert {question["text"] for question in moved} == {*QUESTIONS}
    lexical = {question["text"]: lists_of(browser, question["request_id"])["bm25"] for question in moved}
    assert {question["text"]: question["first"][1] for question in moved} == {
        text: next(iter(documents), None) for text, documents in lexical.items()
    }
    html = browser.get("/console/compare", params={"b": "bm25"}).text
    for question in moved:
        assert f'href="/console/requests/{question["request_id"]}"' in html
    assert "a list of everything &lt;script&gt;alert(1)" in html
    assert "<script>alert" not in html


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"a": "none"}, "a: no 'none'; there are: rrf"),
        ({"b": MARKUP}, "b: no '<script>"),
        ({"n": "501"}, "n: a number from 1 to 500, not '501'"),
        ({"n": "many"}, "n: a number from 1 to 500, not 'many'"),
        ({"questions": "all"}, "questions: no 'all'; there are: recent, judged"),
        ({"weight.bm25": "-1"}, "weight.bm25: a number from 0 to 1000, not '-1'"),
        ({"weight.graph": "1"}, "weights: no branch 'graph'; there are: bm25, vector, hyde"),
        ({"k": "x"}, "k: a number from 0 to 10000, not 'x'"),
    ],
)
def test_a_wrong_parameter_is_an_error_that_lists_what_there_is(
    browser: httpx.Client, parameters: dict[str, str], error: str
) -> None:
    answer = browser.get("/console/compare.json", params=parameters)
    assert (answer.status_code, answer.json()["field"]) == (422, error.partition(":")[0])
    assert error in answer.json()["detail"]


def test_a_key_compares_the_requests_of_its_tenant_and_namespaces_alone(
    api: HttpApi, browser: httpx.Client
) -> None:
    (secret,) = record(api, "stranger-to-comparisons", "a secret about bread")
    with visitor(api, "stranger-to-comparisons", scopes=NOT_OPERATORS) as stranger:
        assert page(stranger, b="bm25")["requests"] == 1
    assert page(browser, b="bm25")["requests"] == len(QUESTIONS)
    assert secret not in browser.get("/console/compare?b=bm25").text
    narrow = {"scopes": NOT_OPERATORS, "namespaces": frozenset({"law"})}
    with visitor(api, "comparing", **narrow) as outsider:
        data = page(outsider)
        assert data["requests"] == page(outsider, namespace="default")["requests"] == 0
    with visitor(api, "comparing", scopes=frozenset({"search:run"})) as searcher:
        assert searcher.get("/console/compare").status_code == 403


def test_without_any_request_the_page_says_what_to_do_next(api: HttpApi) -> None:
    with visitor(api, "silent", scopes=NOT_OPERATORS) as browser:
        html = browser.get("/console/compare").text
        assert "No request is recorded." in html
        assert '<a href="/console/search">Search</a>' in html
        assert page(browser)["comparison"]["questions"] == 0


def test_judged_questions_show_the_measure_of_both_sides_and_what_is_unjudged(judging: httpx.Client) -> None:
    data = page(judging, b="bm25")["comparison"]["judged"]
    # Without the unjudged documents only the graded one is left of either ranking, and it is first.
    assert (data["questions"], data["ndcg"]) == (1, [1.0, 1.0])
    assert (data["gain"]["wins"], data["gain"]["losses"], data["better"]) == (0, 0, None)
    assert data["unjudged"] == [hits - 1 for hits in data["hits"]]
    assert {effect["branch"] for effect in data["branches"]} == {"bm25", "vector", "hyde"}
    assert next(effect for effect in data["branches"] if effect["branch"] == "bm25")["rescued"][1] == 1
    judged_only = page(judging, b="bm25", questions="judged")
    assert (judged_only["requests"], judged_only["comparison"]["questions"]) == (1, 1)
    html = judging.get("/console/compare?b=bm25&questions=judged").text
    assert "Not distinguishable" in html
    assert "Judge what settles" in html
    few = page(judging, questions="judged", tune="yes")["tuning"]
    assert few == {"why": "1 judged questions are too few to learn from; at least 20"}


def test_the_judgements_of_another_tenant_count_for_nothing(
    api: HttpApi, browser: httpx.Client, judging: httpx.Client
) -> None:
    assert page(judging)["comparison"]["judged"]["questions"] == 1
    assert page(browser)["comparison"]["judged"]["questions"] == 0
    assert "No relevant document of these questions is judged." in browser.get("/console/compare").text
    assert page(browser, questions="judged")["requests"] == 0
    with visitor(api, "judging", scopes=NOT_OPERATORS, namespaces=frozenset({"law"})) as outsider:
        assert page(outsider, questions="judged")["requests"] == 0
    with visitor(api) as operator:
        assert page(operator, questions="judged")["requests"] >= 1


def test_changed_weights_are_compared_and_shown_as_a_configuration_to_copy(browser: httpx.Client) -> None:
    changed = {"b": "rrf", "weight.bm25": "1", "weight.vector": "0", "weight.hyde": "0", "k": "7"}
    data = page(browser, **changed)
    block = tomllib.loads(data["candidate"]["block"])["configurations"]["candidate"]
    weights = {"bm25": 1.0, "vector": 0.0, "hyde": 0.0}
    assert block == {"method": "rrf", "k": 7.0, "timeout_s": 20.0, "weights": weights}
    # With no weight for another branch the order is that of BM25 alone.
    assert page(browser, a="bm25", **changed)["comparison"]["changed_first"] == 0
    assert "[configurations.candidate]" in browser.get("/console/compare", params=changed).text
    # The page of a request hands its sliders on.
    request_id = data["comparison"]["moved"][0]["request_id"]
    one = browser.get(f"/console/requests/{request_id}", params={"weight.bm25": "0.9", "k": "7"}).text
    link = re.search(r'href="(/console/compare\?[^"]*)"', one)
    assert link is not None
    followed = browser.get(link[1].replace("&amp;", "&").replace("/compare?", "/compare.json?")).json()
    handed_on = tomllib.loads(followed["candidate"]["block"])["configurations"]["candidate"]
    assert (handed_on["k"], handed_on["weights"]["bm25"]) == (7.0, 0.9)
    assert page(browser)["candidate"] is None


@pytest.mark.slow
def test_twenty_graded_hits_show_the_tuned_weights(api: HttpApi) -> None:
    questions = [f"What does document number {number} say of bread?" for number in range(20)]
    with api.client("tuning") as client:
        answer = client.post("/v1/searches", json={"questions": questions, "cache": "bypass"}).json()
        wait_listed(client, answer["request_id"])
        graded = [
            {
                "request_id": answer["request_id"],
                "question": place,
                "action": "grade",
                "document_id": question["hits"][0]["document_id"],
                "grade": 3,
            }
            for place, question in enumerate(answer["questions"])
        ]
        assert client.post("/v1/feedback", json=graded).json() == {"recorded": 20}
    tuned = {"questions": "judged", "tune": "yes"}
    with visitor(api, "tuning", scopes=NOT_OPERATORS) as browser:
        data = page(browser, **tuned)
        assert (data["comparison"]["judged"]["questions"], data["tuning"]["why"]) == (20, None)
        assert data["tuning"]["verdict"] in ("better", "not distinguishable")
        assert data["tuning"]["weights"].keys() <= {"bm25", "vector", "hyde"}
        assert "[configurations.tuned]" in data["tuning"]["block"]
        assert "Tuned weights" in browser.get("/console/compare", params=tuned).text
        with compare._tuning:
            assert page(browser, **tuned)["tuning"]["why"].startswith("another tuning runs")
