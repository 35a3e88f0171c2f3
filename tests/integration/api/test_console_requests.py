"""Past requests in the console: found by id, and searched again."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from console.charts import LANES_WIDTH, lanes
from console.searched_again import moves
from tests.integration.api.visitors import MARKUP, NOT_OPERATORS, page_answer, token_of, visitor
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.http_api import HttpApi
from tests.support.waiting import until


def recorded(browser: httpx.Client, question: str, namespace: str = "default") -> str:
    """The id of a search that the trail has."""
    request_id: str = page_answer(browser, question, namespace=namespace)["request_id"]
    until(lambda: browser.get(f"/console/requests/{request_id}").status_code == 200, 30)
    return request_id


def search_again(browser: httpx.Client, request_id: str, **fields: str) -> httpx.Response:
    form = {"token": token_of(browser), **fields}
    return browser.post(f"/console/requests/{request_id}", data=form)


def difference(browser: httpx.Client, answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 303, answer.text
    page = browser.get(answer.headers["location"].replace("?", ".json?")).json()
    again: dict[str, Any] = page["again"]
    return again


def test_an_id_or_its_beginning_leads_to_the_request_and_several_such_requests_are_listed(
    api: HttpApi,
) -> None:
    with (
        visitor(api, "finder", scopes=NOT_OPERATORS) as browser,
        visitor(api, "other", scopes=NOT_OPERATORS) as other,
    ):
        first, second = (recorded(browser, question) for question in ("How is bread baked?", "Who bakes?"))
        tenants, own = first.rsplit(".", 1)

        def searched(ending: str, begins: str, by: httpx.Client = browser) -> httpx.Response:
            return by.get(f"/console/requests{ending}", params={"begins": begins}, follow_redirects=True)

        for ending in ("", ".json"):
            for begins in (f" {first} ", own[:12], f"{tenants}.{own[:12]}"):
                led = searched(ending, begins)
                assert (led.status_code, led.url.path) == (200, f"/console/requests/{first}{ending}")
        listed = searched(".json", f"{tenants}.").json()["searches"]
        assert [line["request_id"] for line in listed] == [second, first]
        assert searched(".json", first, by=other).json()["searches"] == []
        assert "<script>alert" not in searched("", MARKUP).text


def test_a_search_again_shows_what_is_new_gone_and_moved_in_the_index_of_now(
    api: HttpApi, api_pipeline: RunningPipeline
) -> None:
    api_pipeline.index(namespace="changing")
    with visitor(api, "again", scopes=NOT_OPERATORS) as browser:
        request_id = recorded(browser, "How is bread baked?", "changing")
        same = difference(browser, search_again(browser, request_id))
        assert [(hit["was"], hit["now"]) for hit in same["questions"][0]["hits"]] == [
            (rank, rank) for rank in range(1, 6)
        ]
        store, generations = api_pipeline.resources.writing_store, api_pipeline.resources.generations
        generations.publish("changing", store.delete("changing", ["bread"]))
        answer = search_again(browser, request_id, configuration="bm25")
        again = difference(browser, answer)
        hits = {hit["document_id"]: hit for hit in again["questions"][0]["hits"]}
        assert again["configuration"] == "bm25"
        assert hits["bread"] == {"document_id": "bread", "was": 1, "now": None}
        page = browser.get(answer.headers["location"]).text
        assert "<td>gone</td>" in page


def test_a_search_again_obeys_the_rights_of_the_key(api: HttpApi) -> None:
    with visitor(api, "again", scopes=NOT_OPERATORS) as owner:
        request_id = recorded(owner, "Who pays for repairs?")
        seen = {
            hit["document_id"]
            for hit in difference(owner, search_again(owner, request_id))["questions"][0]["hits"]
        }
        assert "repairs" in seen
        assert search_again(owner, request_id, token="guessed").status_code == 403
        failed = difference(owner, search_again(owner, request_id, configuration="none"))
        assert (failed["status"], failed["degraded"][0]["where"]) == ("failed", "plan")
        page = owner.get(f"/console/requests/{request_id}", params={"again": failed["request_id"]})
        assert "<code>plan</code>: not_configured" in page.text
        wait = until(lambda: owner.get(f"/console/requests/{failed['request_id']}").status_code == 200, 30)
        assert wait
    reading = frozenset({"audit:read", "search:read"})
    with visitor(api, "again", scopes=reading) as reader:
        assert search_again(reader, request_id).status_code == 403
        assert "Search again" not in reader.get(f"/console/requests/{request_id}").text
    with visitor(api, "stranger", scopes=NOT_OPERATORS) as stranger:
        assert search_again(stranger, request_id).status_code == 404
        own = recorded(stranger, "How is bread baked?")
        assert stranger.get(f"/console/requests/{own}?again={request_id}").status_code == 404
    narrow = {"scopes": frozenset({"search:run", "audit:read", "search:read"}), "filters": {"lang": "none"}}
    with visitor(api, "again", **narrow) as filtered:
        hits = difference(filtered, search_again(filtered, request_id))["questions"][0]["hits"]
        assert {hit["now"] for hit in hits} == {None}


def test_documents_of_both_answers_are_listed_by_their_rank_of_now_and_then_those_that_are_gone() -> None:
    listed = moves({"a": 1, "b": 2, "c": 3}, {"c": 1, "d": 2, "a": 3})
    assert [(hit["document_id"], hit["was"], hit["now"]) for hit in listed] == [
        ("c", 3, 1),
        ("d", None, 2),
        ("a", 1, 3),
        ("b", 2, None),
    ]


def test_the_lane_of_a_branch_that_was_sent_again_also_shows_its_first_run() -> None:
    stages = [
        {"stage": "search.bm25", "start_ms": 3.0, "ms": 5.0},
        {
            "stage": "search.vector",
            "start_ms": 60.0,
            "ms": 20.0,
            "first_start_ms": 4.0,
            "sent_again_ms": 50.0,
        },
        {"stage": "fuse", "start_ms": 80.0, "ms": 15.0},
    ]
    usual, again, fusing = lanes(stages, 1_000.0)["rows"]
    scale = LANES_WIDTH / (1.05 * 95.0)
    assert (usual["first"], usual["again_x"], fusing["first"]) == (None, None, None)
    assert again["sent_again_ms"] == 50.0
    assert again["again_x"] == pytest.approx(50 * scale, abs=0.01)
    assert (again["x"], again["width"]) == pytest.approx((60 * scale, 20 * scale), abs=0.01)
    assert tuple(again["first"].values()) == pytest.approx((4 * scale, 76 * scale), abs=0.01)


def test_the_lane_of_a_branch_without_an_answer_ends_with_the_waiting() -> None:
    stages = [
        {"stage": "search.bm25", "start_ms": 3.0, "ms": 5.0},
        {"stage": "search.vector", "status": "failed", "ms": 0.0, "first_start_ms": 10.0},
        {"stage": "search.hyde", "status": "failed", "ms": 0.0},
        {"stage": "fuse", "start_ms": 90.0, "ms": 10.0},
    ]
    rows = lanes(stages, 100.0)["rows"]
    assert [
        (row["stage"], row["start_ms"], row["ms"], row["has_begun"], row["has_answered"]) for row in rows
    ] == [
        ("search.bm25", 3.0, 5.0, True, True),
        ("search.vector", 10.0, 80.0, True, False),
        ("search.hyde", 0.0, 90.0, False, False),
        ("fuse", 90.0, 10.0, True, True),
    ]
