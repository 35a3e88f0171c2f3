"""Feedback over HTTP on searches of a running pipeline, and its end with its request."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine, delete, update

from models.tables.audit import BranchRow, HitRow
from records.audit import deletion
from records.database import open_database
from records.judgements.store import listed
from tests.integration.api.visitors import record, search
from tests.support.servers.http_api import HttpApi

NAMESPACE = "default"


@pytest.fixture
def engine(api: HttpApi) -> Iterator[Engine]:
    engine = open_database(api.settings.audit_database_url)
    yield engine
    engine.dispose()


@pytest.fixture(scope="module")
def searched(api: HttpApi) -> str:
    """A search of acme's that is in the trail; `bread` is its first hit."""
    return record(api, "acme", "How is bread baked?")[0]


def rows(engine: Engine, request_id: str) -> list[tuple[Any, ...]]:
    """Document, action, grade, rank and source of all feedback on this request."""
    return [
        (row.object_id, row.action_name, row.grade, row.ordinal, row.source)
        for row in listed(engine, NAMESPACE)
        if row.request_id == request_id
    ]


def test_the_same_event_again_corrects_the_grade_and_adds_no_row(
    api: HttpApi, acme: httpx.Client, engine: Engine
) -> None:
    (request_id,) = record(api, "acme", "How is bread baked today?")
    event = {"request_id": request_id, "document_id": "bread", "action": "grade", "grade": 1}
    click = {"request_id": request_id, "document_id": "bread", "action": "click", "rank": 4}
    nothing = {"request_id": request_id, "document_id": None, "action": "nothing_fits"}
    assert acme.post("/v1/feedback", json=event).json() == {"recorded": 1}
    assert acme.post("/v1/feedback", json=[{**event, "grade": 3}, click, nothing]).json() == {"recorded": 3}
    # The rank of an event without one is the one that the trail has.
    assert sorted(rows(engine, request_id), key=str) == [
        ("bread", "click", None, 4, "user"),
        ("bread", "grade", 3, 1, "user"),
        (None, "nothing_fits", None, None, "user"),
    ]
    (graded,) = (row for row in listed(engine, NAMESPACE) if (row.request_id, row.grade) == (request_id, 3))
    assert (graded.text, graded.configuration, graded.question) == ("How is bread baked today?", "rrf", 0)


def test_feedback_on_a_request_whose_hits_were_not_kept_is_recorded(
    api: HttpApi, acme: httpx.Client, engine: Engine
) -> None:
    (request_id,) = record(api, "acme", "How is bread baked tomorrow?")
    with engine.begin() as connection:  # as with `CHORALE_AUDIT_HITS_SHARE=0`
        connection.execute(delete(HitRow).where(HitRow.request_id == request_id))
        without_candidates = (
            update(BranchRow).where(BranchRow.request_id == request_id).values(candidates=None)
        )
        connection.execute(without_candidates)
    event = {"request_id": request_id, "document_id": "bread", "action": "grade", "grade": 3}
    assert acme.post("/v1/feedback", json=event).json() == {"recorded": 1}
    assert rows(engine, request_id) == [("bread", "grade", 3, None, "user")]


def test_an_event_of_user_behavior_insights_is_read(
    acme: httpx.Client, engine: Engine, searched: str
) -> None:
    nested = {
        "application": "shop",
        "query_id": searched,
        "client_id": "browser-1",
        "action_name": "thumb_up",
        "timestamp": "2026-11-26T05:46:24Z",
        "event_attributes": {"object": {"object_id": "bread"}, "position": {"ordinal": 2}},
    }
    flat = {
        "query_id": searched,
        "action_name": "thumb_down",
        "object_id": "bread",
        "position": {"ordinal": 5},
    }
    assert acme.post("/v1/feedback", json=[nested, flat]).status_code == 200
    written = rows(engine, searched)
    assert ("bread", "thumb_up", None, 2, "user") in written
    assert ("bread", "thumb_down", None, 5, "user") in written


@pytest.mark.parametrize(
    ("change", "field", "part"),
    [
        ({"action": "like"}, "action", "'click', 'thumb_up', 'thumb_down', 'grade' or 'nothing_fits'"),
        ({"action": "grade"}, "grade", "needs 0, 1, 2 or 3"),
        ({"action": "grade", "grade": 4}, "grade", "less than or equal to 3"),
        ({"grade": 2}, "grade", "no other action takes one"),
        ({"document_id": None}, "document_id", "every other action needs one"),
        ({"action": "nothing_fits"}, "document_id", "`nothing_fits` takes none"),
        ({"document_id": "no-such"}, "document_id", "its hits: bread"),
        ({"question": 1}, "question", "the search has 1, counted from 0"),
        ({"position": 1}, "position", "unknown field"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed_and_nothing_is_recorded(
    acme: httpx.Client, engine: Engine, searched: str, change: dict[str, Any], field: str, part: str
) -> None:
    before = rows(engine, searched)
    event = {"request_id": searched, "document_id": "bread", "action": "click", **change}
    answer = acme.post("/v1/feedback", json=[event, {**event, "action": "click"}])
    assert (answer.status_code, answer.json()["field"]) == (422, f"0.{field}")
    assert part in answer.json()["detail"]
    assert rows(engine, searched) == before


@pytest.mark.parametrize("body", [[], "bread", [{"request_id": "t.acme.0", "action": "nothing_fits"}] * 101])
def test_a_body_is_an_event_or_a_list_of_at_most_100(acme: httpx.Client, body: Any) -> None:
    assert acme.post("/v1/feedback", json=body).status_code == 422


def test_a_request_of_another_tenant_or_namespace_is_as_unknown_as_one_that_never_was(
    acme: httpx.Client, api: HttpApi, engine: Engine, searched: str
) -> None:
    before = rows(engine, searched)
    event = {"document_id": "bread", "action": "thumb_down"}
    runs = frozenset({"search:run"})
    with (
        api.client("other") as other,
        api.client("acme", namespaces=frozenset({"law"}), scopes=runs) as narrow,
        api.client("acme", scopes=frozenset({"audit:read"})) as reader,
    ):
        answers = [
            other.post("/v1/feedback", json={**event, "request_id": searched}),
            other.post("/v1/feedback", json={**event, "request_id": "t.other.unknown"}),
            narrow.post("/v1/feedback", json={**event, "request_id": searched}),
            *(
                acme.post("/v1/feedback", json={**event, "request_id": id_})
                for id_ in ("unknown", "t.acme.unknown", "t.acme.\0")
            ),
        ]
        assert reader.post("/v1/feedback", json={**event, "request_id": searched}).status_code == 403
    assert {answer.status_code for answer in answers} == {404}
    assert len({answer.text for answer in answers}) == 1
    assert rows(engine, searched) == before


def test_a_search_that_is_not_in_the_trail_yet_takes_feedback_when_the_call_is_repeated(
    acme: httpx.Client, engine: Engine
) -> None:
    request_id = search(acme, "Is bread baked at once?", namespace=NAMESPACE)
    event = {"request_id": request_id, "document_id": "bread", "action": "thumb_up"}
    give_up = time.monotonic() + 30
    while (answer := acme.post("/v1/feedback", json=event)).status_code == 404:
        assert answer.json()["retryable"] is True
        assert "retry-after" in answer.headers
        assert time.monotonic() < give_up
        time.sleep(0.05)
    assert answer.status_code == 200
    # The trail loses it, and the answer is still kept.
    deletion.remove_rows(engine, deletion.requests_of("request_id", request_id))
    assert rows(engine, request_id) == []
    again = acme.post("/v1/feedback", json=event)
    assert (again.status_code, again.json()["retryable"]) == (404, True)
    assert rows(engine, request_id) == []
