"""The API while many callers wait, and while Redis is away."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx
import pytest
from chorale_client import AsyncChorale, service_calls
from chorale_client.keys import WAKEUPS

from api import health, searches, services
from tests.integration.api.conftest import serving_without_workers
from tests.integration.api.test_searches import BREAD, LONG, SEARCHES, problem
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.http_api import HttpApi
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

WAITING = 100


@pytest.fixture(scope="module")
def busy_api() -> Iterator[HttpApi]:
    """An API for the slow tests of this file alone: calls that no worker answers occupy its threads for seconds."""
    with serving_without_workers() as api:
        yield api


@pytest.mark.slow
def test_calls_that_wait_keep_no_other_call_waiting(busy_api: HttpApi) -> None:
    async def ask() -> None:
        headers = {"Authorization": f"Bearer {busy_api.key()}"}
        limits = httpx.Limits(max_connections=WAITING + 10)
        async with httpx.AsyncClient(
            base_url=busy_api.origin, headers=headers, timeout=60, limits=limits
        ) as client:
            waits = [
                asyncio.create_task(client.post(SEARCHES, json=LONG, headers={"Prefer": "wait=50"}))
                for _ in range(WAITING)
            ]
            while redis.zcard(WAKEUPS) < before + WAITING:
                await asyncio.sleep(0.05)
            await client.get(f"{SEARCHES}/t.acme.nothing")
            ended = [one.result().text for one in waits if one.done()]
            assert ended == [], "a call waited for those that wait, or they did not wait"
            for request_id in redis.zrange(WAKEUPS, 0, -1):
                await client.delete(f"{SEARCHES}/{request_id.decode()}")
            statuses = [(await one).headers["chorale-status"] for one in waits]
            assert statuses == ["cancelled"] * WAITING

    with busy_api.redis() as redis:
        before = redis.zcard(WAKEUPS)
        asyncio.run(ask())


@pytest.mark.slow
def test_calls_that_wait_for_a_sweeper_keep_no_key_waiting(
    busy_api: HttpApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_calls, "REPLY_S", 30.0)

    async def ask() -> None:
        listing, other = busy_api.key(), busy_api.key("other")
        limits = httpx.Limits(max_connections=WAITING + 10)
        async with httpx.AsyncClient(base_url=busy_api.origin, timeout=60, limits=limits) as client:
            headers = {"Authorization": f"Bearer {listing}"}
            lists = [
                asyncio.create_task(client.get("/v1/namespaces", headers=headers)) for _ in range(WAITING)
            ]
            await asyncio.sleep(1)
            await client.get(f"{SEARCHES}/t.other.x", headers={"Authorization": f"Bearer {other}"})
            assert not any(one.done() for one in lists), "a search waited for those who list namespaces"
            for one in lists:
                one.cancel()
            await asyncio.gather(*lists, return_exceptions=True)

    asyncio.run(ask())


def test_without_redis_a_search_is_a_problem_that_is_worth_repeating(
    own_redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "READINESS_CACHED_FOR_S", 0.0)
    with (
        RunningPipeline(own_redis_server, queues=[]) as pipeline,
        HttpApi(pipeline.resources.settings) as api,
        api.client(requests_per_minute=None) as client,
    ):
        location = client.post(SEARCHES, json=LONG, headers={"Prefer": "respond-async"}).headers["location"]
        own_redis_server.stop()
        for method, path in (
            ("POST", SEARCHES),
            ("GET", location),
            ("DELETE", location),
            ("GET", f"{location}/events"),
        ):
            response = client.request(method, path, json=BREAD if method == "POST" else None)
            document = problem(response, 503, "unavailable")
            assert (document["retryable"], response.headers["retry-after"]) == (True, "1")
            assert "redis" not in document["detail"].lower()
        assert "redis" in {one["name"] for one in client.get("/readyz").json()["missing"]}
        assert client.get("/healthz").status_code == 200
        own_redis_server.start()
        until(lambda: client.get(f"{SEARCHES}/t.acme.x").status_code == 404)
        assert client.post(SEARCHES, json=LONG, headers={"Prefer": "wait=0"}).status_code == 202


def test_while_redis_is_silent_every_call_ends_in_time(
    own_redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis goes on only after the last call has ended, and no socket timeout ends a call before."""
    monkeypatch.setattr(services, "AsyncChorale", partial(AsyncChorale, socket_timeout_s=60))
    with (
        RunningPipeline(
            own_redis_server, queues=[], environment={"CHORALE_REDIS_SOCKET_TIMEOUT_S": "60"}
        ) as pipeline,
        HttpApi(pipeline.resources.settings) as api,
        api.client(requests_per_minute=None) as unlimited,
        api.client(requests_per_minute=1_000) as limited,
        ThreadPoolExecutor(10) as threads,
    ):

        def ask(client: httpx.Client, prefer: str) -> httpx.Response:
            return client.post(SEARCHES, json={**BREAD, "timeout_s": 1}, headers={"Prefer": prefer})

        clients = {
            client: ask(client, "respond-async").headers["location"] for client in (unlimited, limited)
        }
        own_redis_server.pause()
        try:
            calls = [
                call
                for client, location in clients.items()
                for call in (
                    *(threads.submit(ask, client, prefer) for prefer in ("", "wait=1", "respond-async")),
                    *(threads.submit(client.get, location + query) for query in ("", "?wait=1")),
                )
            ]
            for call in calls:
                problem(call.result(), 503, "unavailable")
        finally:
            own_redis_server.resume()


def test_an_error_of_the_service_has_the_headers_of_the_key_s_calls(
    idle_api: HttpApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(searches, "not_ended", broken)
    with idle_api.client(requests_per_minute=9) as client:
        response = client.post(SEARCHES, json=BREAD, headers={"Prefer": "respond-async"})
    problem(response, 500, "internal")
    assert response.headers["ratelimit"].startswith('"minute";r=8;t=')
