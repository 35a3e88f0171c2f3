"""The console's pages, asked of a real server over a running pipeline: the key's rights, and what each page says."""

from __future__ import annotations

import os
import re
import subprocess
from inspect import signature
from json import dumps, loads
from typing import Any

import httpx
import pytest
from celery import Celery
from chorale_client.adapters.mcp import _Tools
from chorale_client.answer import Answer
from chorale_client.connections.urls import celery_url

from tests.integration.api.visitors import (
    MARKUP,
    NOT_OPERATORS,
    PAGES,
    page_answer,
    record,
    token_of,
    visitor,
)
from tests.support.faults.moments import joining_without_one_branch
from tests.support.pipelines.pipeline import CORPUS, RunningPipeline
from tests.support.servers.http_api import HttpApi
from tests.support.waiting import until


@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_also_json_and_allows_no_script_of_others(operator: httpx.Client, page: str) -> None:
    html, json = operator.get(f"/console/{page}"), operator.get(f"/console/{page}.json")
    assert (html.status_code, json.status_code) == (200, 200)
    assert isinstance(json.json(), dict)
    for answer in (html, json):
        policy = answer.headers["content-security-policy"].split("; ")
        assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} <= set(policy)
        assert answer.headers["cache-control"] == "no-store"
    # The policy would block them: nothing may stand in the page that it blocks.
    assert not re.search(
        r"<script(?![^>]*\ssrc=)|\sstyle=|\son\w+=|<style|(?:src|href|action)=\S?https?://", html.text
    )


def test_the_search_page_says_why_each_hit_stands_where_it_stands(operator: httpx.Client) -> None:
    answer = page_answer(operator, "How is bread baked?")
    best = answer["hits"][0]
    assert (answer["status"], best["document_id"], best["title"]) == ("complete", "bread", "Bread")
    assert [bar["branch"] for bar in best["bars"]] == ["bm25", "vector", "hyde"]
    assert sum(bar["contribution"] for bar in best["bars"]) == pytest.approx(best["score"])
    # The best score is 100 wide, and the bars stand one after another.
    assert sum(bar["width"] for bar in best["bars"]) == pytest.approx(100, abs=0.01)
    assert best["bars"][1]["x"] == pytest.approx(best["bars"][0]["width"])
    marked = [part["text"] for part in best["snippet"] if part["is_marked"]]
    assert "Bread" in marked
    assert [column["name"] for column in answer["chart"]["columns"]] == ["bm25", "vector", "hyde", "fused"]
    page = operator.get("/console/search", params={"q": "How is bread baked?", "namespace": "default"}).text
    assert "<mark>Bread</mark>" in page
    assert "configuration rrf (rrf), top_k 5, depth 200" in page


def test_a_branch_keeps_its_colour_where_another_found_nothing(operator: httpx.Client) -> None:
    answer = page_answer(operator, "zymurgy")  # no document has this word, so bm25 finds nothing
    assert answer["chart"]["columns"][0]["name"] == "vector"
    bars = [bar for hit in answer["hits"] for bar in hit["bars"]]
    assert {bar["series"] for bar in bars if bar["branch"] == "vector"} == {1}


def test_a_degraded_answer_names_branch_reason_and_says_that_the_rest_is_valid(
    operator: httpx.Client, api_pipeline: RunningPipeline
) -> None:
    api_pipeline.pause("chorale.hyde")
    try:
        parameters = {"q": "How is bread baked?", "namespace": "default", "timeout_s": "20"}
        with joining_without_one_branch(api_pipeline):
            page = operator.get("/console/search", params=parameters).text
    finally:
        api_pipeline.resume("chorale.hyde")
    assert "A part of this answer is missing. What is shown is valid." in page
    assert "<code>search.hyde</code>" in page
    assert "<mark>Bread</mark>" in page


def test_a_failed_search_says_what_failed_and_what_to_do(
    operator: httpx.Client, api_pipeline: RunningPipeline
) -> None:
    workers = [name for name in api_pipeline.processes if name != "sweeper"]
    for worker in workers:
        api_pipeline.pause(worker)
    try:
        # The sweeper plans a request that no worker has planned for .3 s.
        parameters = {"q": "How is bread baked?", "namespace": "default", "timeout_s": "2"}
        page = operator.get("/console/search", params=parameters).text
    finally:
        for worker in workers:
            api_pipeline.resume(worker)
    assert "This search failed: the branches that it needs have not answered." in page
    assert "What is shown is valid" not in page
    for branch in ("bm25", "vector", "hyde"):
        assert (
            f"<code>search.{branch}</code>: not_started — no worker took it before the waiting ended" in page
        )
    assert '<a href="/console/health">Health</a> shows which workers' in page


def test_a_value_of_a_hit_s_metadata_is_a_filter_that_one_click_adds(
    operator: httpx.Client, api_pipeline: RunningPipeline
) -> None:
    for topic, name in (("food", "bread"), ("law", "deposit")):
        api_pipeline.index({name: CORPUS[name]}, namespace="facets", topic=topic, year=2026, tags=["a", "b"])
    filters = {"year": {"gte": 2000}}
    options = {"namespace": "facets", "filters": dumps(filters)}
    hit, *others = page_answer(operator, "How is bread baked?", **options)["hits"]
    facets = [(facet["name"], facet["value"], loads(facet["filters"])) for facet in hit["facets"]]
    assert facets == [
        ("topic", "food", {**filters, "topic": "food"}),
        ("year", 2026, {"year": 2026}),
        ("tags", "a", {**filters, "tags": "a"}),
        ("tags", "b", {**filters, "tags": "b"}),
    ]
    assert [other["document_id"] for other in others] == ["deposit"]
    options["filters"] = hit["facets"][0]["filters"]
    assert [
        hit["document_id"] for hit in page_answer(operator, "How is bread baked?", **options)["hits"]
    ] == ["bread"]


def test_the_page_s_search_can_be_copied_for_a_terminal_for_python_and_for_celery(
    api: HttpApi, operator: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = {
        "q": 'Who said "it\'s $HOME"?',
        "namespace": "default",
        "top_k": "2",
        "timeout_s": "20.5",
    }
    page = operator.get("/console/search.json", params=parameters).json()
    ids = [hit["document_id"] for hit in page["answer"]["hits"]]
    assert len(ids) == 2
    environment = {**os.environ, "KEY": api.key()}
    curl = subprocess.run(page["calls"]["curl"], shell=True, env=environment, capture_output=True, check=True)
    monkeypatch.setenv("CHORALE_REDIS_URL", api.settings.redis_url or "")
    address = celery_url(api.settings.redis_url or "")
    with Celery("shop", broker=address, backend=address) as app:
        scope: dict[str, Any] = {"app": app}
        exec(page["calls"]["Celery"], scope)
        from_celery = Answer.from_wire(scope["answer"])
        exec(page["calls"]["Python"], scope)
    for answer in (Answer.from_wire(curl.stdout), from_celery, scope["answer"]):
        assert answer.questions[0].text == parameters["q"]
        assert [hit.document_id for hit in answer.hits] == ids


def test_the_page_s_search_is_also_a_call_of_the_tool_that_mcp_has(operator: httpx.Client) -> None:
    parameters = {"q": "bread?", "namespace": "default", "top_k": "2", "filters": '{"lang": "en"}'}
    call = loads(operator.get("/console/search.json", params=parameters).json()["calls"]["MCP"])
    assert (call["method"], call["params"]["name"]) == ("tools/call", _Tools.chorale_search.__name__)
    arguments = call["params"]["arguments"]
    assert arguments == {"query": "bread?", "namespace": "default", "top_k": 2, "filters": {"lang": "en"}}
    assert arguments.keys() <= signature(_Tools.chorale_search).parameters.keys()


def test_a_hit_is_graded_where_it_is_shown_and_the_same_answer_comes_back(api: HttpApi) -> None:
    rights = {"scopes": frozenset({"search:run"})}
    with visitor(api, "grader", **rights) as browser, visitor(api, "stranger", **rights) as stranger:
        request_id = page_answer(browser, MARKUP)["request_id"]
        form = {"token": token_of(browser, "search"), "request": request_id, "document_id": "bread"}
        form |= {"grade": "2", "q": MARKUP, "namespace": "default"}
        saved = until(lambda: _posted(browser, form), 30)
        assert saved is not None
        page = browser.get(saved.headers["location"].replace("?", ".json?")).json()
        assert (page["answer"]["request_id"], page["grades"]) == (request_id, {"bread": 2})
        assert 'aria-pressed="true"' in browser.get(saved.headers["location"]).text
        # The address of another question does not show this answer.
        other = page_answer(browser, "How is bread baked?", request=request_id)
        assert other["request_id"] != request_id
        for change, status in (
            ({"grade": "4"}, 422),
            ({"document_id": "nowhere"}, 422),
            ({"token": "guessed"}, 403),
        ):
            assert browser.post("/console/search", data={**form, **change}).status_code == status
        theirs = {**form, "token": token_of(stranger, "search")}
        assert stranger.post("/console/search", data=theirs).status_code == 404
        answer = page_answer(stranger, MARKUP, request=request_id)
        assert answer["request_id"].startswith("t.stranger.")


def _posted(browser: httpx.Client, form: dict[str, str]) -> httpx.Response | None:
    """The response, once the trail has the search."""
    response = browser.post("/console/search", data=form)
    return response if response.status_code == 303 else None


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"filters": "{"}, 'filters: not a JSON object such as {"year": {"gte": 2026}}'),
        ({"top_k": "many"}, "top_k: not a number: 'many'"),
        ({"configuration": "none"}, "configuration: no 'none'; there are: rrf"),
        ({"namespace": "nowhere"}, "there is no namespace 'nowhere'"),
    ],
)
def test_a_wrong_value_is_named_beside_the_form_that_keeps_what_was_typed(
    operator: httpx.Client, parameters: dict[str, str], error: str
) -> None:
    answer = operator.get("/console/search", params={"q": "bread", "namespace": "default", **parameters})
    assert answer.status_code == 200
    text = answer.text.replace("&#34;", '"').replace("&#39;", "'")
    assert error in text
    assert 'value="bread"' in text


def test_a_search_obeys_the_namespaces_filter_and_limits_of_the_key(api: HttpApi) -> None:
    with visitor(api, namespaces=frozenset({"law"})) as browser:
        page = browser.get("/console/search.json", params={"q": "bread", "namespace": "default"}).json()
        assert page["answer"] is None
        assert "default" in page["error"]
        assert page["namespaces"] == []
    with visitor(api, scopes=frozenset({"search:run"}), filters={"customer": "none"}) as browser:
        assert page_answer(browser, "bread")["hits"] == []
    with visitor(api, max_top_k=2) as browser:
        assert len(page_answer(browser, "bread")["hits"]) == 2
        page = browser.get("/console/search.json", params={"q": "bread", "top_k": "3"}).json()
        assert page["error"] == "top_k: 3 is more than this key allows; its maximum is 2"
    with visitor(api, requests_per_minute=2) as browser:
        assert [browser.get("/console/corpus").status_code for _ in range(3)] == [200, 200, 429]


@pytest.fixture(scope="module")
def request_id(api: HttpApi) -> str:
    return record(api, "acme", "Who pays when bread breaks the meter?", include=["ids", "metadata"])[0]


def test_a_past_request_is_listed_by_what_was_missing_and_opens_with_its_lists(
    operator: httpx.Client, request_id: str
) -> None:
    for conditions, is_listed in (({"status": "complete"}, True), ({"missing": "bm25"}, False)):
        listed = operator.get("/console/requests.json", params=conditions).json()["searches"]
        assert (request_id in [line["request_id"] for line in listed]) is is_listed
    page = operator.get(f"/console/requests/{request_id}.json").json()
    assert page["request"]["questions"] == ["Who pays when bread breaks the meter?"]
    stages = [row["stage"] for row in page["lanes"]["rows"]]
    assert stages[:3] == ["search.bm25", "search.vector", "search.hyde"]
    lists = page["fusion"]["lists"]
    assert [branch["branch"] for branch in lists] == ["bm25", "vector", "hyde"]
    assert all(branch["hits"] for branch in lists)


def test_sliders_fuse_the_recorded_lists_again_by_the_address_alone(
    operator: httpx.Client, request_id: str
) -> None:
    address = f"/console/requests/{request_id}.json"
    lists = {branch["branch"]: branch for branch in operator.get(address).json()["fusion"]["lists"]}
    alone = {"weight.bm25": "0", "weight.hyde": "0", "weight.vector": "1"}
    fusion = operator.get(address, params=alone).json()["fusion"]
    first = [hit["document_id"] for hit in lists["vector"]["hits"][:3]]
    assert [hit["document_id"] for hit in fusion["hits"][:3]] == first
    late = operator.get(address, params={"deadline_ms": "0", "document": first[0]}).json()["fusion"]
    assert (late["late"], late["hits"]) == (["bm25", "hyde", "vector"], [])
    assert late["whereabouts"]["branches"][0]["why"] == "it reported after the deadline"
    words = operator.get(address, params={"configuration": "bm25"}).json()["fusion"]
    assert [row["branch"] for row in words["weights"]] == ["bm25"]
    first = [hit["document_id"] for hit in lists["bm25"]["hits"][:3]]
    assert [hit["document_id"] for hit in words["hits"][:3]] == first
    wrong = {"k": "many", "weight.bm25": "-1", "depth": "0", "question": "1", "configuration": "none"}
    for parameter, value in wrong.items():
        refused = operator.get(address, params={parameter: value})
        assert (refused.status_code, refused.json()["field"]) == (422, parameter)


def test_nothing_of_another_tenant_is_on_any_page(api: HttpApi) -> None:
    (request_id,) = record(api, "first-tenant", "a secret about bread")
    rights = {"namespaces": frozenset({"default"}), "scopes": NOT_OPERATORS}
    with visitor(api, "second-tenant", **rights) as second:
        for path in (*PAGES, f"requests/{request_id}"):
            for ending in ("", ".json"):
                text = second.get(f"/console/{path}{ending}").text
                assert "secret" not in text
                assert path.endswith(request_id) or request_id not in text
        assert second.get(f"/console/requests/{request_id}").status_code == 404


def test_markup_in_questions_ids_and_parameters_is_shown_as_text(
    api: HttpApi, operator: httpx.Client
) -> None:
    (request_id,) = record(api, "acme", MARKUP, correlation_id=MARKUP)
    pages = [
        operator.get("/console/search", params={"q": MARKUP, "namespace": MARKUP, "filters": MARKUP}),
        operator.get("/console/requests", params={"status": MARKUP}),
        operator.get("/console/requests"),
        operator.get(f"/console/requests/{request_id}", params={"document": MARKUP}),
        operator.get(f"/console/requests/{MARKUP}"),
        operator.get("/console/judge", params={"request": request_id}),
        operator.get("/console/login", params={"next": MARKUP}),
    ]
    for page in pages:
        assert "<script>alert" not in page.text
        assert "<b onclick" not in page.text
    assert "&lt;script&gt;alert(1)" in pages[0].text


def test_an_unknown_page_is_a_page_that_says_so(operator: httpx.Client) -> None:
    for path in ("nowhere", "requests/unknown"):
        answer = operator.get(f"/console/{path}")
        assert answer.status_code == 404
        assert answer.headers["content-type"].startswith("text/html")
        assert operator.get(f"/console/{path}.json").json()["code"] == "not_found"


def test_docs_lists_every_route_of_the_api_with_its_fields_and_needs_no_key(api: HttpApi) -> None:
    with api.stranger() as anybody:
        page, document = anybody.get("/docs"), anybody.get("/openapi.json").json()
    assert page.status_code == 200
    for path, operations in document["paths"].items():
        for method in operations:
            assert f"<code>{method.upper()} {path}</code>" in page.text
    assert "<code>top_k</code>" in page.text
    assert "integer from 1 to 1000" in page.text


def test_where_there_are_many_namespaces_the_name_is_written(
    api: HttpApi, api_pipeline: RunningPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    for namespace in ("default", "written"):
        api_pipeline.index(namespace=namespace)
    with visitor(api) as browser:
        assert '<select id="namespace"' in browser.get("/console/search").text
        monkeypatch.setattr("console.search.MOST_CHOICES", 1)
        assert '<input id="namespace"' in browser.get("/console/search").text


def test_without_a_sweeper_the_page_says_that_the_namespaces_are_not_known(
    idle_api: HttpApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.search.NAMESPACES_S", 0.1)
    with visitor(idle_api) as browser:
        for page in ("corpus", "search"):
            answer = browser.get(f"/console/{page}")
            assert answer.status_code == 200
            assert "The namespaces are not known: no sweeper answers." in answer.text
