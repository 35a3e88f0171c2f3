"""The page that compares configurations over past requests, asked of a real server over a running pipeline."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from itertools import count
from typing import Any

import httpx
import pytest

from console import compare
from records.keys.grant import SCOPES
from tests.integration.api.test_audit import search, wait_listed
from tests.integration.api.visitors import MARKUP, token_of, visitor
from tests.support.servers.http_api import HttpApi
from tests.support.waiting import until

QUESTIONS = ("How is bread baked?", "Who pays when the meter breaks?", "a list of everything")
NOT_OPERATORS = frozenset(SCOPES) - {"admin"}
"""The scopes of a key that sees its own tenant alone."""
_tenants = count(1)


@pytest.fixture
def tenant(api: HttpApi) -> str:
    """A tenant whose three searches are recorded."""
    name = f"comparing-{next(_tenants)}"
    with api.client(name) as client:
        wait_listed(client, *(search(client, text, namespace="default") for text in QUESTIONS))
    return name


@pytest.fixture
def browser(api: HttpApi, tenant: str) -> Iterator[httpx.Client]:
    with visitor(api, tenant, scopes=NOT_OPERATORS) as browser:
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
    # Under B every document is one that BM25 found, in its order, and that no other branch can have found.
    assert {question["text"]: question["first"][1] for question in moved} == {
        text: next(iter(documents), None) for text, documents in lexical.items()
    }
    alone = {name: of_b for name, (_, of_b) in comparison["alone"].items()}
    found = sum(len(documents[:10]) for documents in lexical.values())
    assert alone == {"bm25": found, "vector": 0, "hyde": 0}
    overlaps = [question["overlap"] for question in moved]
    assert overlaps == sorted(overlaps)
    assert comparison["overlap"] == pytest.approx(sum(overlaps) / len(QUESTIONS))
    html = browser.get("/console/compare", params={"b": "bm25"}).text
    for question in moved:
        assert f'href="/console/requests/{question["request_id"]}"' in html


def test_the_same_configuration_on_both_sides_moves_nothing(browser: httpx.Client) -> None:
    comparison = page(browser, a="rrf", b="rrf", namespace="default", n="2")["comparison"]
    assert (comparison["questions"], comparison["overlap"], comparison["moved"]) == (2, 1.0, [])
    html = browser.get("/console/compare", params={"a": "rrf", "b": "rrf"}).text
    assert "A and B put the same ten documents in the same order for every question." in html


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
    html = browser.get("/console/compare", params=parameters)
    assert html.status_code == 422
    assert "<script>alert" not in html.text


def test_a_key_compares_the_requests_of_its_tenant_and_namespaces_alone(
    api: HttpApi, tenant: str, browser: httpx.Client
) -> None:
    with api.client("stranger-to-comparisons") as client:
        secret = search(client, "a secret about bread", namespace="default")
        wait_listed(client, secret)
    with visitor(api, "stranger-to-comparisons", scopes=NOT_OPERATORS) as stranger:
        theirs = page(stranger, b="bm25")
        assert theirs["requests"] == 1
        assert not any(text in stranger.get("/console/compare?b=bm25").text for text in QUESTIONS)
    assert page(browser, b="bm25")["requests"] == len(QUESTIONS)
    for ending in ("", ".json"):
        text = browser.get(f"/console/compare{ending}?b=bm25").text
        assert "secret" not in text
        assert secret not in text
    narrow = {"scopes": NOT_OPERATORS, "namespaces": frozenset({"law"})}
    with visitor(api, tenant, **narrow) as of_another_namespace:
        data = page(of_another_namespace)
        assert data["requests"] == page(of_another_namespace, namespace="default")["requests"] == 0
    with visitor(api, tenant, scopes=frozenset({"search:run"})) as searcher:
        assert searcher.get("/console/compare").status_code == 403


def test_without_any_request_the_page_says_what_to_do_next(api: HttpApi) -> None:
    with visitor(api, "silent", scopes=NOT_OPERATORS) as browser:
        html = browser.get("/console/compare").text
        assert "No request is recorded." in html
        marked = browser.get("/console/compare", params={"namespace": MARKUP}).text
        assert "No request is recorded in the namespace &lt;script&gt;alert(1)" in marked
        assert "<b onclick" not in marked
        assert '<a href="/console/search">Search</a>' in html
        assert page(browser)["comparison"]["questions"] == 0


def test_an_answer_from_the_cache_is_counted_as_left_out(api: HttpApi) -> None:
    with api.client("cached") as client:
        ids: list[str] = []

        def is_cached() -> bool:
            ids.append(search(client, "What is cached bread?", namespace="default", cache="use"))
            return bool(client.get(f"/v1/searches/{ids[-1]}").json()["cached"])

        # An answer enters the cache a moment after it is known.
        until(is_cached)
        wait_listed(client, *ids)
    with visitor(api, "cached", scopes=NOT_OPERATORS) as browser:
        comparison = page(browser)["comparison"]
        html = browser.get("/console/compare").text
    assert comparison["questions"] == len(ids) - 1
    assert comparison["left_out"] == {"the answer came from the cache": 1}
    assert "could not be" in html


def test_markup_in_a_question_is_shown_as_text_and_the_page_has_no_script_of_its_own(api: HttpApi) -> None:
    with api.client("marked") as client:
        wait_listed(client, search(client, "bread <script>alert(1)</script>", namespace="default"))
    with visitor(api, "marked", scopes=NOT_OPERATORS) as browser:
        html = browser.get("/console/compare?b=bm25").text
        assert page(browser, b="bm25")["comparison"]["moved"]
    assert "bread &lt;script&gt;alert(1)" in html
    assert not re.search(r"<script(?![^>]*\ssrc=)|\sstyle=|<style|https?://", html)


def grade(api: HttpApi, tenant: str, request_id: str, **grades: int) -> None:
    events = [
        {"request_id": request_id, "action": "grade", "document_id": name, "grade": value}
        for name, value in grades.items()
    ]
    with api.client(tenant) as client:
        assert client.post("/v1/feedback", json=events).status_code == 200


def requests_of(browser: httpx.Client) -> dict[str, str]:
    """The ids of the requests by the text of their question."""
    listed = browser.get("/console/requests.json").json()["searches"]
    return {request["text"]: request["request_id"] for request in listed}


def test_judged_questions_show_the_measure_of_both_sides_and_what_is_unjudged(
    api: HttpApi, tenant: str, browser: httpx.Client
) -> None:
    assert page(browser, b="bm25")["comparison"]["judged"]["questions"] == 0
    assert "No relevant document of these questions is judged." in browser.get("/console/compare").text
    assert page(browser, questions="judged")["requests"] == 0
    request_id = requests_of(browser)[QUESTIONS[0]]
    lists = lists_of(browser, request_id)
    best = lists["bm25"][0]
    grade(api, tenant, request_id, **{best: 3})
    data = page(browser, b="bm25")["comparison"]["judged"]
    # Without the unjudged documents only `best` is left of either ranking, and it is first.
    assert (data["questions"], data["ndcg"]) == (1, [1.0, 1.0])
    assert (data["gain"]["wins"], data["gain"]["losses"], data["better"]) == (0, 0, None)
    assert data["unjudged"] == [hits - 1 for hits in data["hits"]]
    assert {effect["branch"] for effect in data["branches"]} == {"bm25", "vector", "hyde"}
    assert next(effect for effect in data["branches"] if effect["branch"] == "bm25")["rescued"][1] == 1
    judged_only = page(browser, b="bm25", questions="judged")
    assert (judged_only["requests"], judged_only["comparison"]["questions"]) == (1, 1)
    html = browser.get("/console/compare?b=bm25&questions=judged").text
    for part in (
        "Not distinguishable",
        "unjudged of the first ten",
        "rescued and hurt",
        "Judge what settles",
    ):
        assert part in html


def test_the_judgements_of_another_tenant_count_for_nothing(
    api: HttpApi, tenant: str, browser: httpx.Client
) -> None:
    with api.client("grading-stranger") as client:
        theirs = search(client, QUESTIONS[0], namespace="default")
        wait_listed(client, theirs)
    with visitor(api, "grading-stranger", scopes=NOT_OPERATORS) as stranger:
        best = lists_of(stranger, theirs)["bm25"][0]
        grade(api, "grading-stranger", theirs, **{best: 3})
        assert page(stranger)["comparison"]["judged"]["questions"] == 1
    ours = page(browser)
    assert ours["comparison"]["judged"]["questions"] == 0
    assert page(browser, questions="judged")["requests"] == 0
    with visitor(api, tenant, scopes=NOT_OPERATORS, namespaces=frozenset({"law"})) as of_another_namespace:
        assert page(of_another_namespace, questions="judged")["requests"] == 0
    with visitor(api) as operator:
        assert page(operator, questions="judged")["requests"] >= 1


def test_changed_weights_are_compared_and_shown_as_a_configuration_to_copy(
    api: HttpApi, tenant: str, browser: httpx.Client
) -> None:
    changed = {"b": "rrf", "weight.bm25": "1", "weight.vector": "0", "weight.hyde": "0", "k": "7"}
    data = page(browser, **changed)
    block = tomllib.loads(data["candidate"]["block"])["configurations"]["candidate"]
    weights = {"bm25": 1.0, "vector": 0.0, "hyde": 0.0}
    assert block == {"method": "rrf", "k": 7.0, "timeout_s": 20.0, "weights": weights}
    # With no weight for another branch the order is that of BM25 alone.
    assert page(browser, a="bm25", **changed)["comparison"]["changed_first"] == 0
    html = browser.get("/console/compare", params=changed).text
    assert html.index("Questions that moved most") < html.index("Save as configuration")
    assert "[configurations.candidate]" in html
    # The page of a request hands its sliders on.
    request_id = requests_of(browser)[QUESTIONS[0]]
    one = browser.get(f"/console/requests/{request_id}", params={"weight.bm25": "0.9", "k": "7"}).text
    link = re.search(r'href="(/console/compare\?[^"]*)"', one)
    assert link is not None
    followed = browser.get(link[1].replace("&amp;", "&").replace("/compare?", "/compare.json?")).json()
    handed_on = tomllib.loads(followed["candidate"]["block"])["configurations"]["candidate"]
    assert (handed_on["k"], handed_on["weights"]["bm25"]) == (7.0, 0.9)
    assert page(browser)["candidate"] is None


def test_tuning_says_that_the_judged_questions_are_too_few(
    api: HttpApi, tenant: str, browser: httpx.Client
) -> None:
    request_id = requests_of(browser)[QUESTIONS[0]]
    grade(api, tenant, request_id, **{lists_of(browser, request_id)["bm25"][0]: 2})
    few = {"questions": "judged", "tune": "yes"}
    assert page(browser, **few)["tuning"] == {
        "why": "1 judged questions are too few to learn from; at least 20"
    }
    assert (
        "Nothing is tuned: 1 judged questions are too few" in browser.get("/console/compare", params=few).text
    )


def test_twenty_graded_hits_show_the_tuned_weights(api: HttpApi) -> None:
    texts = [f"What does document number {number} say of bread?" for number in range(20)]
    with api.client("tuning") as client:
        ids = [search(client, text, namespace="default") for text in texts]
        wait_listed(client, *ids)
    with visitor(api, "tuning", scopes=NOT_OPERATORS) as browser:
        for request_id in ids:
            first = next(hits[0] for hits in lists_of(browser, request_id).values() if hits)
            form = {"token": token_of(browser), "request": request_id, f"grade.{first}": "3"}
            assert browser.post("/console/judge", data=form).status_code == 303
        tuned = {"questions": "judged", "tune": "yes"}
        data = page(browser, **tuned)
        assert (data["comparison"]["judged"]["questions"], data["tuning"]["why"]) == (20, None)
        assert data["tuning"]["verdict"] in ("better", "not distinguishable")
        assert data["tuning"]["weights"].keys() <= {"bm25", "vector", "hyde"}
        assert "[configurations.tuned]" in data["tuning"]["block"]
        html = browser.get("/console/compare", params=tuned).text
        assert "Tuned weights" in html
        assert "held out" in html
        with compare._tuning:
            assert page(browser, **tuned)["tuning"]["why"].startswith("another tuning runs")
