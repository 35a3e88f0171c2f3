"""Life, readiness and metrics over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from api import health
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.http_api import HttpApi
from tests.support.servers.redis_server import RedisServer, free_port

BRANCHES = ["chorale.bm25", "chorale.vector", "chorale.hyde"]


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "READINESS_CACHED_FOR_S", 0.0)


def missing(response: httpx.Response) -> dict[str, bool]:
    """Whether each missing part is needed, by name."""
    return {one["name"]: one["is_needed"] for one in response.json()["missing"]}


@pytest.fixture
def anybody(api: HttpApi) -> Iterator[httpx.Client]:
    with api.stranger() as client:
        yield client


def test_a_running_installation_is_ready_and_what_it_does_without_is_named(anybody: httpx.Client) -> None:
    assert anybody.get("/healthz").json() == {"status": "ok"}
    response = anybody.get("/readyz")
    assert (response.status_code, response.json()["is_ready"]) == (200, True)
    assert {name: needed for name, needed in missing(response).items() if name != "chorale.bulk"} == {}


def test_without_a_branch_it_is_ready_and_the_queue_is_named(
    anybody: httpx.Client, api_pipeline: RunningPipeline
) -> None:
    api_pipeline.pause("chorale.hyde")
    try:
        api_pipeline.redis_forget("chorale.hyde")
        response = anybody.get("/readyz")
        assert (response.status_code, missing(response)["chorale.hyde"]) == (200, False)
    finally:
        api_pipeline.resume("chorale.hyde")
        api_pipeline.wait_ready(["chorale.hyde"])


def test_without_workers_it_is_not_ready(idle_api: HttpApi) -> None:
    with idle_api.stranger() as anybody:
        response = anybody.get("/readyz")
    assert (response.status_code, response.json()["is_ready"]) == (503, False)
    assert missing(response) == {
        "chorale.retrieve": True,
        **dict.fromkeys(BRANCHES, True),
        "chorale.fusion": True,
        "chorale.index": False,
        "chorale.bulk": False,
        "sweeper": False,
    }


def test_metrics_are_for_admins(api: HttpApi, anybody: httpx.Client) -> None:
    assert anybody.get("/metrics").status_code == 401
    with api.client(scopes=frozenset({"audit:read"})) as client:
        assert client.get("/metrics").status_code == 403
    with api.client(scopes=frozenset({"admin"})) as client:
        response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "chorale_" in response.text


def test_a_login_that_redis_refuses_is_named_in_the_answer_and_in_the_log(
    idle_api: HttpApi, caplog: pytest.LogCaptureFixture
) -> None:
    with RedisServer(port=free_port()) as server:
        with server.client() as admin:
            admin.acl_setuser("http", enabled=True, passwords=["+right"], keys="*", commands=["+@all"])
        url = f"redis://http:wrong-secret@127.0.0.1:{server.port}/0"
        settings = idle_api.settings.model_copy(update={"redis_url": url})
        with HttpApi(settings) as api, api.stranger() as anybody:
            (part,) = anybody.get("/readyz").json()["missing"]
    assert part == {"name": "redis", "why": "it refuses the login 'http'", "is_needed": True}
    assert "refuses the login" in caplog.text
    assert "wrong-secret" not in caplog.text
