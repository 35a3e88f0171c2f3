"""The audit trail over HTTP, asked of a real server over a running pipeline."""

from __future__ import annotations

from typing import Any

import httpx

from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.http_api import HttpApi
from tests.support.waiting import until


def search(client: httpx.Client, text: str, **options: Any) -> str:
    found = client.post("/v1/searches", json={"questions": [text], "cache": "bypass", **options})
    assert found.status_code == 200, found.text
    request_id: str = found.json()["request_id"]
    return request_id


def wait_listed(client: httpx.Client, *ids: str) -> None:
    def look() -> bool:
        return {*ids} <= {one["request_id"] for one in client.get("/v1/audit").json()["searches"]}

    until(look, 30)


def test_past_searches_are_listed_page_by_page_and_shown_with_their_branches(api: HttpApi) -> None:
    with api.client("audited", scopes=frozenset({"search:run", "audit:read"})) as client:
        ids = [search(client, f"bread {number}", correlation_id=f"c{number}") for number in range(3)]
        wait_listed(client, *ids)
        first = client.get("/v1/audit", params={"limit": 2}).json()
        rest = client.get("/v1/audit", params={"limit": 2, "after": first["next"]}).json()
        listed = [one["request_id"] for page in (first, rest) for one in page["searches"]]
        assert (listed, rest["next"]) == (ids[::-1], None)
        (one,) = client.get("/v1/audit", params={"correlation_id": "c1"}).json()["searches"]
        assert (one["request_id"], one["text"], one["questions"]) == (ids[1], "bread 1", 1)
        shown = client.get(f"/v1/audit/{ids[0]}").json()
        assert {one["branch"] for one in shown["branches"]} == {"bm25", "vector", "hyde"}
        assert shown["questions"][0]["hits"][0]["document_id"] == "bread"


def test_a_key_sees_the_searches_of_its_tenant_and_namespaces_alone_and_an_admin_all(
    api: HttpApi, api_pipeline: RunningPipeline
) -> None:
    reader = frozenset({"audit:read"})
    without_key = api_pipeline.client().retrieve("bread without a key").request_id
    with (
        api.client("owner") as owner,
        api.client("other", scopes=reader) as other,
        api.client("owner", scopes=reader, namespaces=frozenset({"law"})) as narrow,
        api.client("operator", scopes=frozenset({"admin"})) as admin,
        api.client("owner", scopes=frozenset({"search:run"})) as runner,
    ):
        own = search(owner, "whose bread?")
        wait_listed(admin, own, without_key)
        told = {
            other.get(f"/v1/audit/{own}").text,
            other.get("/v1/audit/unknown").text,
            other.get(f"/v1/audit/{without_key}").text,
            narrow.get(f"/v1/audit/{own}").text,
            owner.get("/v1/audit/t.owner.unknown").text,
        }
        assert len(told) == 1
        assert '"status": 404' in told.pop()
        assert other.get("/v1/audit").json()["searches"] == narrow.get("/v1/audit").json()["searches"] == []
        assert runner.get("/v1/audit").status_code == 403
        assert admin.get(f"/v1/audit/{own}").status_code == 200
