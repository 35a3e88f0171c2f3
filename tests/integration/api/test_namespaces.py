"""Namespaces and documents over HTTP, asked of a real server over a running pipeline."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import httpx
import pytest
from chorale_client import Chorale
from chorale_client.keys import INDEXED, waiting_key
from chorale_client.tenants import Namespace

from tests.support.attacks.routes import JSONL
from tests.support.servers.http_api import HttpApi
from tests.support.waiting import until

TEA = {"id": "tea", "title": "Tea", "text": "Green tea is brewed at 80 degrees.", "metadata": {"year": 2020}}
WRITER = frozenset({"documents:write", "search:run"})


def handed_in(client: httpx.Client, response: httpx.Response) -> dict[str, Any]:
    """The state of the ticket when it is done."""
    assert response.status_code == 202, response.text
    path = response.headers["location"]
    assert path.endswith(f"/tickets/{response.json()['ticket']}")

    def done_state() -> dict[str, Any] | None:
        state: dict[str, Any] = client.get(path).json()
        return None if state["state"] == "waiting" else state

    state = until(done_state, 60)
    assert state is not None
    return state


def upsert(client: httpx.Client, namespace: str, *documents: dict[str, Any]) -> dict[str, Any]:
    return handed_in(
        client, client.post(f"/v1/namespaces/{namespace}/documents", json={"documents": documents or [TEA]})
    )


def test_documents_are_found_after_their_ticket_is_done_and_not_after_they_are_deleted(
    acme: httpx.Client,
) -> None:
    state = upsert(acme, "drinks", TEA, {"id": "coffee", "text": "Coffee is roasted."})
    assert (state["state"], state["outcome"]["added"], state["outcome"]["skipped"]) == ("done", 2, [])
    assert state["ticket"].startswith("t.acme.drinks.")
    search = {"namespace": "drinks", "questions": ["how is green tea brewed?"], "filters": {"year": 2020}}
    (answer,) = acme.post("/v1/searches", json=search).json()["questions"]
    assert [hit["document_id"] for hit in answer["hits"]] == ["tea"]
    gone = acme.delete("/v1/namespaces/drinks/documents", params={"id": ["tea", "nothing"]})
    assert handed_in(acme, gone)["outcome"]["deleted"] == 1
    (answer,) = acme.post("/v1/searches", json=search).json()["questions"]
    assert answer["hits"] == []


def test_namespaces_are_listed_shown_and_deleted(acme: httpx.Client) -> None:
    upsert(acme, "to-delete")
    assert "to-delete" in [one["name"] for one in acme.get("/v1/namespaces").json()["namespaces"]]
    namespace = acme.get("/v1/namespaces/to-delete").json()
    assert (namespace["documents"], namespace["passages"]) == (1, 1)
    state = handed_in(acme, acme.delete("/v1/namespaces/to-delete"))
    assert (state["state"], state["outcome"]["deleted"]) == ("done", 1)
    assert acme.get("/v1/namespaces/to-delete").status_code == 404
    assert acme.delete("/v1/namespaces/to-delete").status_code == 404


def test_namespaces_are_listed_page_by_page(acme: httpx.Client) -> None:
    for name in ("page-a", "page-b"):
        upsert(acme, name)
    whole = acme.get("/v1/namespaces").json()
    names, page = list[str](), {"next": ""}
    while page["next"] is not None:
        page = acme.get("/v1/namespaces", params={"limit": 1, "after": page["next"]}).json()
        names += [one["name"] for one in page["namespaces"]]
    assert (names, whole["next"]) == ([one["name"] for one in whole["namespaces"]], None)
    assert len(names) >= 2
    assert names == sorted(names)


def test_a_page_reads_one_namespace_more_than_it_lists(
    acme: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("page-a", "page-b"):
        upsert(acme, name)
    read = list[list[str]]()
    namespaces = Chorale.namespaces

    def counted(client: Chorale, **page: Any) -> Sequence[Namespace]:
        listed = namespaces(client, **page)
        read.append([one.name for one in listed])
        return listed

    monkeypatch.setattr(Chorale, "namespaces", counted)
    acme.get("/v1/namespaces", params={"limit": 1, "after": "page"})
    acme.get("/v1/namespaces/page-b")
    assert read == [["page-a", "page-b"], ["page-b"]]


def test_a_key_lists_its_namespaces_alone_and_deletes_none(api: HttpApi, acme: httpx.Client) -> None:
    upsert(acme, "secret")
    with api.client("globex", scopes=WRITER, namespaces=frozenset({"default", "new"})) as globex:
        assert [one["name"] for one in globex.get("/v1/namespaces").json()["namespaces"]] == ["default"]
        assert globex.delete("/v1/namespaces/default").status_code == 403
        assert upsert(globex, "new")["state"] == "done"


def test_a_ticket_tells_a_tenant_of_no_server_and_the_operator_of_all(idle_api: HttpApi) -> None:
    secret = "Elasticsearch at http://10.0.0.7:9200 cannot be reached"
    states = ("waiting", "failed", "done")
    with (
        idle_api.redis() as redis,
        idle_api.client("acme") as operator,
        idle_api.client("acme", scopes=WRITER) as tenant,
    ):
        handed_in = operator.post("/v1/namespaces/default/documents", json={"documents": [TEA]})
        path, ticket = handed_in.headers["location"], handed_in.json()["ticket"]
        redis.set(waiting_key(ticket), json.dumps({"v": 1, "waiting": secret}))
        for state, outcome in zip(
            states, (None, {"error": secret}, {"unwritten": {"tea": secret}}), strict=True
        ):
            if outcome is not None:
                redis.set(INDEXED + ticket, json.dumps({"v": 1, "namespace": "default", **outcome}))
            seen, by_operator = tenant.get(path), operator.get(path)
            assert seen.json()["state"] == by_operator.json()["state"] == state
            assert secret not in seen.text
            assert secret in by_operator.text
        assert [*seen.json()["outcome"]["unwritten"]] == ["tea"]


def test_a_key_with_a_filter_sees_no_figures_of_a_whole_namespace(api: HttpApi) -> None:
    with api.client("narrow", scopes=frozenset({"search:run"}), filters={"year": 2020}) as client:
        namespace = client.get("/v1/namespaces/default").json()
    assert namespace == {"name": "default", "documents": None, "passages": None, "generation": None}


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"documents": []}, 422, "documents"),
        ({"documents": [{"id": "a"}]}, 422, "documents.0.text"),
        ({"documents": [TEA], "more": 1}, 422, "more: unknown field"),
        ({"documents": [TEA] * 1_001}, 422, "documents"),
        ({"documents": [{**TEA, "text": "x" * (33 * 1024 * 1024)}]}, 413, "large"),
    ],
)
def test_documents_that_cannot_be_handed_in_are_refused(
    acme: httpx.Client, body: dict[str, Any], status: int, said: str
) -> None:
    response = acme.post("/v1/namespaces/default/documents", json=body)
    assert (response.status_code, response.json()["code"] == "too_large") == (status, status == 413), (
        response.text
    )
    assert said in response.json()["detail"] + response.json()["title"]


def test_documents_that_make_a_namespace_name_its_encoder(api: HttpApi) -> None:
    path, body = "/v1/namespaces/named/documents", {"documents": [TEA], "encoder": "e5"}
    with api.client("globex", scopes=WRITER) as tenant:
        state = handed_in(tenant, tenant.post(path, json=body))
        assert (state["state"], state["why"]) == ("failed", "no encoder 'e5' here; there are: default")
        assert handed_in(tenant, tenant.post(path, json={**body, "encoder": "default"}))["state"] == "done"
        assert tenant.post(path, json={**body, "encoder": 7}).status_code == 422


def test_a_namespace_that_a_key_may_not_use_is_named_as_the_field_whether_or_not_it_exists(
    api: HttpApi, acme: httpx.Client
) -> None:
    upsert(acme, "secret")
    with api.client("narrow", namespaces=frozenset({"default"})) as narrow:
        answers = [
            narrow.request(method, path, **options)
            for name in ("secret", "nowhere")
            for method, path, options in (
                ("POST", "/v1/searches", {"json": {"namespace": name, "questions": ["tea"]}}),
                ("GET", f"/v1/namespaces/{name}", {}),
                ("POST", f"/v1/namespaces/{name}/documents", {"json": {"documents": [TEA]}}),
                ("POST", "/v1/jobs", {"params": {"namespace": name}, "headers": JSONL}),
            )
        ]
    assert {answer.status_code for answer in answers} == {404}
    expected = (
        "namespace: there is no such namespace for this key; `GET /v1/namespaces` lists those that it may use"
    )
    assert {(answer.json()["field"], answer.json()["detail"]) for answer in answers} == {
        ("namespace", expected)
    }
