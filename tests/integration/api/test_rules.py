"""The rules of a namespace over HTTP: what a search does with them, who may write them, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.http_api import HttpApi
from tests.support.waiting import until

PATH = "/v1/namespaces/curated/rules"
PIN = {"pin": {"bakery": {"contains": ["baking"], "documents": ["deposit"]}}}


@pytest.fixture(scope="module")
def curated(api_pipeline: RunningPipeline) -> str:
    api_pipeline.index(namespace="curated")
    return "curated"


@pytest.fixture
def curator(api: HttpApi, curated: str) -> Iterator[httpx.Client]:
    rights = {"namespaces": frozenset({curated}), "scopes": frozenset({"documents:write", "search:run"})}
    with api.client("acme", **rights) as client:
        yield client


def test_rules_are_put_with_an_etag_and_the_next_searches_follow_them(curator: httpx.Client) -> None:
    curator.put(PATH, json={})
    before = curator.get(PATH)
    put = curator.put(PATH, json=PIN, headers={"If-Match": before.headers["etag"]})
    assert put.status_code == 200, put.text
    assert put.headers["etag"] != before.headers["etag"]
    assert put.json()["rules"]["pin"]["bakery"]["documents"] == ["deposit"]
    assert put.json()["changed_by"].startswith("key ")
    # A repeated call changes nothing, and a call of somebody who has not seen the change is refused.
    again = curator.put(PATH, json=PIN, headers={"If-Match": before.headers["etag"]})
    assert (again.status_code, again.headers["etag"]) == (200, put.headers["etag"])
    late = curator.put(PATH, json={}, headers={"If-Match": before.headers["etag"]})
    assert (late.status_code, late.json()["code"]) == (412, "changed")
    unchanged = curator.get(PATH, headers={"If-None-Match": put.headers["etag"]})
    assert (unchanged.status_code, unchanged.content) == (304, b"")

    search = {"namespace": "curated", "questions": ["how is bread baked?"]}

    def first() -> dict[str, Any] | None:
        hit: dict[str, Any] = curator.post("/v1/searches", json=search).json()["questions"][0]["hits"][0]
        return hit if hit.get("pinned") else None

    hit = until(first)
    assert hit is not None
    assert (hit["document_id"], hit["pinned"], hit["rank"]) == ("deposit", "bakery", 1)

    newest, *older = curator.get(f"{PATH}/history").json()["changes"]
    assert (newest["version"], newest["rules"]["pin"]["bakery"]["contains"]) == (
        put.json()["version"],
        ["baking"],
    )
    assert all(one["version"] < newest["version"] for one in older)


def test_a_key_without_the_right_or_for_another_namespace_neither_reads_nor_writes(
    api: HttpApi, curated: str, curator: httpx.Client
) -> None:
    version = curator.get(PATH).json()["version"]
    searching: dict[str, Any] = {"scopes": frozenset({"search:run", "search:read"})}
    filtered: dict[str, Any] = {**searching, "filters": {"customer": "acme"}}
    for rights, status in (
        (searching, 403),
        (filtered, 403),
        ({"namespaces": frozenset({"default"})}, 404),
    ):
        with api.client("zenith", **rights) as client:
            answers = [client.get(PATH), client.get(f"{PATH}/history"), client.put(PATH, json=PIN)]
            assert [answer.status_code for answer in answers] == [status] * 3, rights
    with api.client("zenith") as client:
        assert client.put("/v1/namespaces/nothing/rules", json=PIN).status_code == 404
    assert curator.get(PATH).json()["version"] == version


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"pin": {"a": {"documents": ["d"]}}}, "pin.a"),
        ({"blok": {}}, "blok"),
        ({"block": {f"r{n}": {"documents": ["d"]} for n in range(1_001)}}, "body"),
        ({"synonyms": {"a": {"words": ["x" * 300, "y"]}}}, "synonyms.a.words.0"),
    ],
)
def test_wrong_rules_and_too_many_are_refused_by_name(
    curator: httpx.Client, body: dict[str, Any], field: str
) -> None:
    version = curator.get(PATH).json()["version"]
    answer = curator.put(PATH, json=body)
    assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (422, "invalid", field)
    assert curator.get(PATH).json()["version"] == version


def test_huge_rules_and_foreign_etags_are_refused(curator: httpx.Client) -> None:
    huge = {"synonyms": {"a": {"words": ["x" * 250] * 3_000}}}
    assert curator.put(PATH, json=huge).status_code == 413
    for tag in ('"x"', "", "9" * 30, "-1", "1.0"):
        answer = curator.put(PATH, json={}, headers={"If-Match": tag})
        assert answer.status_code == 400, tag
        assert answer.json()["field"] == "If-Match"
