"""The audit trail over HTTP, asked of a real server over a running pipeline."""

from __future__ import annotations

from typing import Any

from chorale_client.keys import OUTBOX
from chorale_client.wire_names import Reason

from models.branch_result import BranchResult
from tests.integration.api.visitors import search, wait_listed
from tests.support.ledger.audit_entries import make_answer, make_entry, make_plan, make_request
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.http_api import HttpApi


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
        recorded = client.get(f"/v1/audit/{ids[0]}").json()
        assert {one["branch"] for one in recorded["branches"]} == {"bm25", "vector", "hyde"}
        assert recorded["questions"][0]["hits"][0]["document_id"] == "bread"


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
        texts = {
            other.get(f"/v1/audit/{own}").text,
            other.get("/v1/audit/unknown").text,
            other.get(f"/v1/audit/{without_key}").text,
            narrow.get(f"/v1/audit/{own}").text,
            owner.get("/v1/audit/t.owner.unknown").text,
        }
        assert len(texts) == 1
        assert '"status": 404' in texts.pop()
        assert other.get("/v1/audit").json()["searches"] == narrow.get("/v1/audit").json()["searches"] == []
        assert runner.get("/v1/audit").status_code == 403
        assert admin.get(f"/v1/audit/{own}").status_code == 200


def test_a_key_reads_no_address_of_a_server_and_the_operators_key_does(api: HttpApi) -> None:
    detail = "http://10.0.0.7:9200 closed the connection"
    part = {"reason": "unavailable", "detail": detail}
    request = make_request(request_id="t.hidden.1")
    answer = make_answer(
        request,
        status="degraded",
        degraded=[{"where": "search.bm25", **part}],
        stages=[{"stage": "search.bm25", "status": "failed", "ms": 1, **part}],
        warnings=[f"cache: unavailable: {detail}"],
    )
    failed = BranchResult.failed("bm25", Reason.UNAVAILABLE, detail)
    entry: dict[Any, Any] = {
        **make_entry(request, plan=make_plan(request), answer=answer, branch_results=(failed,))
    }
    api.redis().xadd(OUTBOX, entry)
    with (
        api.client("hidden", scopes=frozenset({"audit:read"})) as client,
        api.client("operator", scopes=frozenset({"admin"})) as admin,
    ):
        wait_listed(client, request.request_id)
        for path in ("/v1/audit?begins=t.hidden.1", f"/v1/audit/{request.request_id}"):
            assert "unavailable" in client.get(path).text
            assert "10.0.0.7" not in client.get(path).text
            assert "10.0.0.7" in admin.get(path).text


def test_a_status_that_no_search_can_have_is_refused_by_name(api: HttpApi) -> None:
    with api.client("auditor", scopes=frozenset({"audit:read"})) as client:
        refused = client.get("/v1/audit?status=done")
        assert (refused.status_code, refused.json()["field"]) == (422, "status")
        assert "'complete', 'degraded'" in refused.json()["detail"]
        assert client.get("/v1/audit?status=degraded").status_code == 200
