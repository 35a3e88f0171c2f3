"""The page on which judges grade the hits of recorded questions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from chorale_client.keys import result_key
from sqlalchemy import Engine

from records.database import open_database
from records.judgements.store import listed
from tests.integration.api.visitors import record, token_of, visitor
from tests.support.pipelines.pipeline import CORPUS
from tests.support.servers.http_api import HttpApi

NAMESPACE = "default"
MARKUP = "<script>alert(1)</script>"
QUESTIONS = ("How is bread baked?", "Who pays for repairs?", MARKUP)


@pytest.fixture(scope="module")
def request_ids(api: HttpApi) -> list[str]:
    """The ids of a tenant's three searches, one for each of `QUESTIONS`."""
    return record(api, "judged", *QUESTIONS, include=["ids", "metadata", "snippets"])


@pytest.fixture
def judge(api: HttpApi) -> Iterator[httpx.Client]:
    rights = {"scopes": frozenset({"search:run", "audit:read"}), "namespaces": frozenset({NAMESPACE})}
    with visitor(api, "judged", **rights) as browser:
        yield browser


@pytest.fixture
def engine(api: HttpApi) -> Iterator[Engine]:
    engine = open_database(api.settings.audit_database_url)
    yield engine
    engine.dispose()


def judge_page(browser: httpx.Client, **parameters: str) -> dict[str, Any]:
    page: dict[str, Any] = browser.get("/console/judge.json", params=parameters).json()
    return page


def saved(browser: httpx.Client, page: dict[str, Any], **fields: str) -> httpx.Response:
    form = {"request": page["request_id"], "question": "0", "name": page["name"]}
    return browser.post("/console/judge", data={"token": token_of(browser), **form, **fields})


def grades(engine: Engine, request_id: str) -> dict[str | None, tuple[str, int | None]]:
    """Source and grade of each document."""
    return {
        row.object_id: (row.source, row.grade)
        for row in listed(engine, NAMESPACE)
        if row.request_id == request_id
    }


def test_the_hits_of_a_question_are_shown_with_titles_and_without_a_sign_of_their_ranks(
    judge: httpx.Client, request_ids: list[str]
) -> None:
    question = judge_page(judge, request=request_ids[0])["question"]
    assert question["text"] == QUESTIONS[0]
    titles = {hit["document_id"]: hit["title"] for hit in question["hits"]}
    assert titles["bread"] == "Bread"
    assert {*question["hits"][0]} == {"document_id", "title", "snippet", "grade", "of"}
    recorded = judge.get(f"/console/requests/{request_ids[0]}.json").json()["fusion"]["hits"]
    ranked = [hit["document_id"] for hit in recorded if hit["document_id"] in titles]
    assert len(ranked) > 3
    assert [*titles] != ranked
    assert [*titles] == [
        hit["document_id"] for hit in judge_page(judge, request=request_ids[0])["question"]["hits"]
    ]


def test_a_document_whose_answer_is_not_kept_any_more_is_read_for_a_key_that_may_search(
    api: HttpApi, judge: httpx.Client, request_ids: list[str]
) -> None:
    api.redis().delete(result_key(request_ids[1]))
    hits = {hit["document_id"]: hit for hit in judge_page(judge, request=request_ids[1])["question"]["hits"]}
    assert hits["repairs"]["title"] == CORPUS["repairs"][0]
    (part,) = hits["repairs"]["snippet"]
    assert part["text"].startswith(CORPUS["repairs"][1][:40])
    rights = {"scopes": frozenset({"audit:read"}), "namespaces": frozenset({NAMESPACE})}
    with visitor(api, "judged", **rights) as reader:
        hits = {
            hit["document_id"]: hit for hit in judge_page(reader, request=request_ids[1])["question"]["hits"]
        }
    assert (hits["repairs"]["title"], hits["repairs"]["snippet"]) == ("repairs", [])


def test_saved_grades_are_those_of_a_judge_and_lead_to_the_next_question_until_all_are_judged(
    judge: httpx.Client, request_ids: list[str], engine: Engine
) -> None:
    first = judge_page(judge)
    assert (first["questions"], first["question"]["text"]) == ({"judged": 0, "all": 3}, MARKUP)
    answer = saved(judge, first["question"], **{"grade.bread": "0"})
    assert answer.status_code == 303
    page = judge.get(answer.headers["location"]).text
    assert QUESTIONS[1] in page  # the searches are listed newest first
    assert grades(engine, request_ids[2]) == {"bread": ("judge", 0)}
    # A later grade of the same judge replaces the earlier one, and the page shows it.
    saved(judge, first["question"], **{"grade.bread": "1"})
    assert grades(engine, request_ids[2]) == {"bread": ("judge", 1)}
    again = judge_page(judge, request=request_ids[2])["question"]["hits"]
    assert {hit["document_id"]: hit["grade"] for hit in again}["bread"] == 1
    # A grade of 0 is a judgement, and a hit without one stays unjudged.
    counted = judge_page(judge)
    assert (counted["questions"]["judged"], counted["hits"]["judged"]) == (1, 1)

    saved(judge, first["question"], nothing_fits="1")
    for request_id in request_ids[:2]:
        question = judge_page(judge, request=request_id)["question"]
        saved(judge, question, **{f"grade.{hit['document_id']}": "2" for hit in question["hits"]})
    done = judge_page(judge)
    assert (done["question"], done["questions"]) == (None, {"judged": 3, "all": 3})
    assert "Every hit of the newest recorded questions is judged." in judge.get("/console/judge").text


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"grade.bread": "4"}, "grade: Input should be less than or equal to 3"),
        ({"grade.bread": "x"}, "grade: Input should be a valid integer"),
        ({"grade.no-such": "1"}, "document_id: no hit or candidate of this question"),
        ({"grade.bread": "1", "question": "7"}, "question: the search has 1"),
    ],
)
def test_a_form_with_a_wrong_value_saves_nothing(
    judge: httpx.Client, request_ids: list[str], engine: Engine, fields: dict[str, str], part: str
) -> None:
    before = grades(engine, request_ids[0])
    question = judge_page(judge, request=request_ids[0])["question"]
    answer = saved(judge, question, **fields)
    assert answer.status_code == 422
    assert part in answer.text
    assert grades(engine, request_ids[0]) == before


def test_only_a_form_of_the_session_with_the_right_to_search_saves_and_only_the_tenant_s_requests(
    api: HttpApi, judge: httpx.Client, request_ids: list[str], engine: Engine
) -> None:
    before = grades(engine, request_ids[0])
    question = judge_page(judge, request=request_ids[0])["question"]
    change = {"grade.bread": "0"}
    assert saved(judge, question, **change, token="guessed").status_code == 403
    with visitor(api, "judged", scopes=frozenset({"audit:read"})) as reader:
        page = reader.get("/console/judge", params={"request": request_ids[0]})
        assert (page.status_code, "it lacks the scope" in page.text) == (200, True)
        assert saved(reader, question, **change).status_code == 403
    rights = {"namespaces": frozenset({NAMESPACE}), "scopes": frozenset({"search:run", "audit:read"})}
    with visitor(api, "judged-stranger", **rights) as stranger:
        assert saved(stranger, question, **change).status_code == 404
        assert stranger.get("/console/judge", params={"request": request_ids[0]}).status_code == 404
        assert stranger.get("/console/judge", params={"request": "t.judged-stranger.\0"}).status_code == 404
        assert judge_page(stranger)["question"] is None
    assert grades(engine, request_ids[0]) == before


def test_a_comparison_asks_first_for_the_question_that_would_settle_it_and_goes_on_after_saving(
    api: HttpApi,
) -> None:
    texts = ("How is bread baked at night?", "Who pays for repairs of the roof?")
    record(api, "settling", *texts)
    rights = {"scopes": frozenset({"search:run", "audit:read"}), "namespaces": frozenset({NAMESPACE})}
    chosen = {"a": "rrf", "b": "bm25"}
    with visitor(api, "settling", **rights) as browser:
        first = judge_page(browser, **chosen)
        assert first["comparison"]["open"] == 2
        question = first["question"]
        html = browser.get("/console/judge", params=chosen).text
        assert "the grades of no other question can change the comparison more" in html
        skipped = judge_page(browser, **chosen, after=question["name"])["question"]
        assert {question["text"], skipped["text"]} == {*texts}

        everything = {f"grade.{hit['document_id']}": "1" for hit in question["hits"]}
        answer = saved(browser, question, **everything, comparison="a=rrf&b=bm25&request=x&evil=1")
        assert answer.headers["location"].partition("&after=")[0] == "/console/judge?a=rrf&b=bm25"
        following = browser.get(answer.headers["location"].replace("/judge?", "/judge.json?")).json()
        assert (following["question"]["name"], following["comparison"]["open"]) == (skipped["name"], 1)
        low, high = following["comparison"]["ends"]
        assert low == high  # everything of the only judged question is known

        everything = {f"grade.{hit['document_id']}": "0" for hit in following["question"]["hits"]}
        saved(browser, following["question"], **everything)
        done = judge_page(browser, **chosen)
        assert (done["question"], done["comparison"]["open"]) == (None, 0)
        wrong = browser.get("/console/judge.json", params={"b": MARKUP})
        assert (wrong.status_code, wrong.json()["field"]) == (422, "b")
    with visitor(api, "settling-stranger", **rights) as stranger:
        assert judge_page(stranger, **chosen)["question"] is None
