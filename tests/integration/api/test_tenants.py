"""The attacks on keys and tenants: another's id in every endpoint, wrong keys, missing scopes, fuzzed calls.

A new route of the API fails here until it stands in `tests.support.attacks.routes`, and is then attacked as the others are.
"""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from api.app import create_app
from config.settings import Settings
from records.keys.grant import SCOPES, Grant
from tests.support.attacks.estate import (
    MARK,
    OUR_NAMESPACE,
    THEIR_FIELD,
    THEIR_NAMESPACE,
    Estate,
    estate,
    index_documents,
)
from tests.support.attacks.fuzzing import EXPECTED, attack
from tests.support.attacks.routes import BREAD, NAMESPACE, PUBLIC, ROUTES, WITH_IDS, call, routes_of, seen
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.http_api import HttpApi
from tests.support.waiting import until

OURS = frozenset({NAMESPACE})
RUN = "search:run"


@pytest.fixture(scope="module")
def pipeline(api_pipeline: RunningPipeline) -> RunningPipeline:
    index_documents(api_pipeline)
    return api_pipeline


@pytest.fixture(scope="module")
def zenith(api: HttpApi, pipeline: RunningPipeline) -> Iterator[Estate]:
    with estate(api) as theirs:
        yield theirs


@pytest.fixture(scope="module")
def acme(api: HttpApi) -> Iterator[httpx.Client]:
    """A key with every scope, for the shared namespace alone."""
    with api.client("acme", namespaces=OURS) as client:
        yield client


@pytest.fixture(scope="module")
def sharing(api: HttpApi) -> Iterator[httpx.Client]:
    """A key of acme's for zenith's own namespace."""
    with api.client("acme", namespaces=frozenset({THEIR_NAMESPACE})) as client:
        yield client


@pytest.fixture(scope="module")
def filtered(api: HttpApi) -> Iterator[httpx.Client]:
    """A key of acme's that finds acme's documents alone."""
    scopes = frozenset(SCOPES) - {"admin", "documents:write"}
    with api.client("acme", namespaces=OURS, scopes=scopes, filters={"customer": "acme"}) as client:
        yield client


@pytest.fixture(scope="module")
def attackers(api: HttpApi, filtered: httpx.Client) -> Iterator[list[httpx.Client]]:
    """`filtered`, and a key of acme's with every scope for a namespace of its own."""
    with api.client("acme", namespaces=frozenset({OUR_NAMESPACE})) as client:
        yield [filtered, client]


def test_every_route_is_attacked() -> None:
    assert routes_of(create_app(Settings())) - PUBLIC == set(ROUTES)


def test_another_s_id_and_an_unknown_id_are_the_same_404(
    zenith: Estate, acme: httpx.Client, sharing: httpx.Client, pipeline: RunningPipeline
) -> None:
    before = zenith.state()
    without_tenant = pipeline.client().retrieve("bread", timeout_s=20).request_id
    unknown = ["t.acme.0", "t.zenith.0", "unknown", without_tenant, zenith.ids["job_id"]]
    for route, name in WITH_IDS:
        callers = [(acme, NAMESPACE), *([(sharing, THEIR_NAMESPACE)] if name != "namespace" else [])]
        responses = [
            call(caller, route, {**zenith.ids, "namespace": namespace, name: one})
            for caller, namespace in callers
            for one in (zenith.ids[name], *unknown)
        ]
        assert {one.status_code for one in responses} == {404}, (route, name)
        assert len({seen(one) for one in responses}) == 1, (route, name)
        assert MARK not in responses[0].text, (route, name)
    assert zenith.state() == before


def test_a_job_is_not_compared_with_another_s(zenith: Estate, acme: httpx.Client) -> None:
    own = call(acme, "POST /v1/jobs", {}).json()["job_id"]
    pairs = [*itertools.permutations((own, zenith.ids["job_id"])), (own, "t.acme.unknown")]
    compared = [acme.get(f"/v1/jobs/{one}/comparison", params={"other": other}) for one, other in pairs]
    assert {one.status_code for one in compared} == {404}
    assert len({seen(one) for one in compared}) == 1


def test_no_key_and_every_wrong_key_are_the_same_401(api: HttpApi, zenith: Estate) -> None:
    rights = Grant("", "acme", None, frozenset(SCOPES))
    expired = api.keys.create(rights, expires_at_ms=1)
    revoked, good = api.keys.create(rights), api.keys.create(rights)
    api.keys.revoke(revoked.key_id)
    wrong = [
        *(f"Bearer {one}" for one in (expired.text, good.text[:-1], good.text + "x", "x")),
        f"Bearer chorale_{good.key_id}_{'a' * 43}",
        f"Bearer chorale_{'a' * 12}_{'a' * 43}",
        *("Bearer", "Basic YTpi", f"Basic {good.text}", good.text, f"Bearer {good.text.upper()}", ""),
    ]

    def answers(stranger: httpx.Client, route: str) -> list[httpx.Response]:
        headers = ROUTES[route].call.get("headers", {})
        credentials = [f"Bearer {revoked.text}", *(wrong if route == "GET /v1/jobs" else ())]
        authorised = [{**headers, "Authorization": text} for text in credentials]
        return [call(stranger, route, zenith.ids, headers=one) for one in (headers, *authorised)]

    # A refusal is delayed, so the routes are called at the same time.
    with api.stranger() as stranger, ThreadPoolExecutor(16) as callers:
        for route, responses in zip(
            ROUTES, callers.map(lambda route: answers(stranger, route), ROUTES), strict=True
        ):
            assert {response.status_code for response in responses} == {401}, route
            assert len({seen(response) for response in responses}) == 1, route
            assert responses[0].headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("scope", SCOPES)
def test_a_key_reaches_the_routes_of_its_scope_alone(scope: str, api: HttpApi, zenith: Estate) -> None:
    allowed = {
        name for name, route in ROUTES.items() if scope in route.scopes or (scope == "admin" and route.scopes)
    }
    unknown = dict.fromkeys(zenith.ids, "unknown")
    for namespaces, more in ((OURS, set()), (None, {"GET /metrics"}))[: 1 + (scope == "admin")]:
        with api.client(scopes=frozenset({scope}), namespaces=namespaces) as client:
            reached = {route for route in ROUTES if call(client, route, unknown).status_code != 403}
        assert reached == allowed | more


def test_a_failure_names_no_folder_and_no_other_namespace(api: HttpApi, pipeline: RunningPipeline) -> None:
    with api.client("early", namespaces=frozenset({"not-yet"})) as client:
        response = client.post("/v1/searches", json={**BREAD, "namespace": "not-yet"})
    assert (response.status_code, response.json()["detail"]) == (404, "there is no namespace 'not-yet'")
    for secret in (str(pipeline.home), pipeline.server.url, NAMESPACE, THEIR_NAMESPACE):
        assert secret not in response.text


def test_the_forced_filter_holds_in_answers_counts_and_warnings(
    filtered: httpx.Client, zenith: Estate
) -> None:
    conditions: list[dict[str, Any]] = [
        {},
        {"customer": "zenith"},
        {"customer": ["acme", "zenith"]},
        {"customer": {"not": "acme"}},
        {"customer": {"all": ["zenith"]}},
        {THEIR_FIELD: "bread"},
        {THEIR_FIELD: {"not": "x"}},
        {"nobody_has_this": {"not": "x"}},
        {"customer": "nobody"},
    ]
    ids = []
    for filters in conditions:
        response = filtered.post("/v1/searches", json={**BREAD, "filters": filters, "include": ["texts"]})
        assert response.status_code == 200, response.text
        assert MARK not in response.text
        answer = response.json()
        # A warning tells what the hits tell, whether or not others have such a document.
        as_json = json.dumps(filters, separators=(",", ":"))
        said = f"filter {next(iter(filters), '')!r}: no document that may be found meets {as_json}"
        assert answer["warnings"] == ([] if answer["questions"][0]["hits"] else [said])
        assert (answer["questions"][0]["total_matches"] or 0) <= 1
        ids.append([hit["document_id"] for hit in answer["questions"][0]["hits"]])
    assert ids == [["ours"], [], ["ours"], [], [], [], ["ours"], ["ours"], []]


CALL_FIELDS = {"request_id", "namespace", "ended_at", "ms", "start_ms", "took_ms", "score", "retry_after_s"}


def comparable(value: Any) -> Any:
    """The answer without its namespace, times and scores, which differ from call to call."""
    if isinstance(value, dict):
        return {name: comparable(one) for name, one in value.items() if name not in CALL_FIELDS}
    return [comparable(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "filters", [{}, {"customer": {"not": "zenith"}}, {THEIR_FIELD: {"exists": False}}, {"x": 1}]
)
def test_an_answer_tells_nothing_of_the_documents_beside_one_s_own(
    filters: dict[str, Any], api: HttpApi, pipeline: RunningPipeline
) -> None:
    """In the shared namespace it is the answer of the namespace that has acme's documents alone."""
    answers = []
    with api.client("acme", scopes=frozenset({RUN}), filters={"customer": "acme"}) as client:
        for namespace in (NAMESPACE, OUR_NAMESPACE):
            request = {**BREAD, "namespace": namespace, "filters": filters, "include": ["texts", "metadata"]}
            answers.append(
                client.post("/v1/searches", json={**request, "cache": "bypass", "timeout_s": 20}).json()
            )
    assert answers[0]["status"] == "complete"
    assert comparable(answers[0]) == comparable(answers[1])


def test_an_answer_does_not_tell_that_another_tenant_asked_the_same(
    zenith: Estate, acme: httpx.Client
) -> None:
    body = {"questions": [f"bread {uuid.uuid4().hex}"], "namespace": NAMESPACE}
    until(lambda: zenith.client.post("/v1/searches", json=body).json()["cached"])
    assert not acme.post("/v1/searches", json=body).json()["cached"]


def test_an_idempotency_key_belongs_to_its_api_key(zenith: Estate, acme: httpx.Client) -> None:
    # `same` is zenith's key of another request, which would be a conflict.
    response = acme.post("/v1/searches", json=BREAD, headers={"Idempotency-Key": "same"})
    assert response.status_code == 200, response.text
    assert response.json()["request_id"].startswith("t.acme.")


def test_two_keys_of_one_tenant_see_the_same_searches_and_jobs(api: HttpApi, acme: httpx.Client) -> None:
    search = acme.post("/v1/searches", json=BREAD).json()["request_id"]
    job = call(acme, "POST /v1/jobs", {}).json()["job_id"]
    with api.client("acme", namespaces=OURS) as second:
        assert second.get(f"/v1/searches/{search}").json()["request_id"] == search
        assert second.get(f"/v1/jobs/{job}").json()["job_id"] == job
        assert job in second.get("/v1/jobs", params={"limit": 1_000}).text


def test_a_tenant_with_a_similar_name_sees_nothing(api: HttpApi, zenith: Estate) -> None:
    scopes = frozenset(SCOPES) - {"admin"}
    for tenant in ("zenit_", "z", "zenith-"):
        with api.client(tenant, scopes=scopes) as client:
            assert client.get("/v1/jobs").json()["jobs"] == []
            assert client.get("/v1/audit").json()["searches"] == []
            removed = client.delete("/v1/jobs", params={"ended_before": "2999-01-01T00:00:00Z"})
            assert removed.json() == {"removed": 0}


def test_a_revoked_key_is_refused_soon(api: HttpApi) -> None:
    with api.client("gone") as client:
        assert client.get("/v1/jobs").status_code == 200
        api.revoke(client)
        until(lambda: client.get("/v1/jobs").status_code == 401)


def test_fuzzed_calls_show_nothing_of_another_tenant(zenith: Estate, attackers: list[httpx.Client]) -> None:
    before = zenith.state()
    assert set(attack(zenith, attackers, calls=200, seed=200)) <= EXPECTED
    assert zenith.state() == before
