"""One HTTP API of two cells, of which one is lost: each cell is a Redis server of its own, without workers."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import pytest
from chorale_client.keys import HEARTBEAT, RATE
from chorale_client.wire_names import QUEUE_BULK, QUEUE_FUSION, QUEUE_INDEX, QUEUE_RETRIEVE

from api import health
from config.pipeline_reader import declared_queues
from config.settings import Settings
from tests.integration.api.visitors import token_of, visitor
from tests.support.servers.http_api import HttpApi
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

QUEUES = [QUEUE_RETRIEVE, *declared_queues(None), QUEUE_FUSION, QUEUE_INDEX, QUEUE_BULK]
QUOTA = 3
COUNTED = "/v1/audit"
"""A path whose calls are counted, and that reads no Redis."""


@pytest.fixture
def servers() -> Iterator[Mapping[str, RedisServer]]:
    with RedisServer() as a, RedisServer() as b:
        yield {"a": a, "b": b}


@pytest.fixture
def settings(servers: Mapping[str, RedisServer], tmp_path: Path) -> Settings:
    """The settings of every API of the installation; none of them names a Redis of its own."""
    return Settings(home=tmp_path, cells={name: server.url for name, server in servers.items()})


@pytest.fixture
def api(settings: Settings) -> Iterator[HttpApi]:
    with HttpApi(settings) as api:
        yield api


def called(client: httpx.Client, times: int) -> list[int]:
    return [client.get(COUNTED).status_code for _ in range(times)]


def counters(server: RedisServer) -> list[bytes]:
    with server.client() as redis:
        return list(redis.scan_iter(RATE + "*"))


def cell_that_counts(servers: Mapping[str, RedisServer]) -> str:
    """The one cell that has a counter."""
    (cell,) = (name for name, server in servers.items() for _ in counters(server))
    return cell


def test_all_apis_count_the_calls_of_a_key_together(
    api: HttpApi, settings: Settings, servers: Mapping[str, RedisServer]
) -> None:
    with (
        HttpApi(settings) as other,
        api.client(requests_per_minute=QUOTA) as one_way,
        other.stranger({"Authorization": one_way.headers["Authorization"]}) as other_way,
    ):
        codes = [*called(one_way, 2), *called(other_way, 2), *called(one_way, 1)]
        assert codes == [200, 200, 200, 429, 429]
    assert cell_that_counts(servers) in servers


def test_the_keys_are_counted_in_different_cells(api: HttpApi, servers: Mapping[str, RedisServer]) -> None:
    def are_all_counting() -> bool:
        with api.client(requests_per_minute=QUOTA) as client:
            assert called(client, 1) == [200]
        return all(map(counters, servers.values()))

    # By chance a cell counts none of the first keys, so each attempt has one key more.
    until(are_all_counting)


@pytest.mark.parametrize("loss", ["killed", "silent"])
def test_a_lost_cell_costs_the_limit_of_a_key_at_most_one_window(
    api: HttpApi, servers: Mapping[str, RedisServer], loss: str
) -> None:
    with api.client(requests_per_minute=QUOTA) as client:
        assert called(client, QUOTA + 1) == [*[200] * QUOTA, 429]
        lost = servers[cell_that_counts(servers)]
        lost.kill() if loss == "killed" else lost.pause()
        # The next cell counts from 0 on.
        assert called(client, QUOTA + 2) == [*[200] * QUOTA, 429, 429]


def test_without_any_cell_a_limited_call_is_refused_and_is_worth_repeating(
    api: HttpApi, servers: Mapping[str, RedisServer]
) -> None:
    with api.client(requests_per_minute=QUOTA) as client:
        for server in servers.values():
            server.kill()
        refused = client.get(COUNTED)
    assert (refused.status_code, refused.json()["retryable"]) == (503, True)


def test_a_login_of_the_console_outlives_every_cell(
    api: HttpApi, settings: Settings, servers: Mapping[str, RedisServer]
) -> None:
    with visitor(api) as browser, HttpApi(settings) as other, other.stranger() as elsewhere:
        for server in servers.values():
            server.kill()
        assert browser.get("/console/jobs").status_code == 200
        elsewhere.cookies.update(browser.cookies)
        assert elsewhere.get("/console/jobs").status_code == 200
        assert browser.post("/console/logout", data={"token": token_of(browser)}).status_code == 303
        assert elsewhere.get("/console/jobs").status_code == 303


def put_to_work(server: RedisServer) -> None:
    """Writes the heartbeats of a worker for every queue, and of a sweeper."""
    with server.client() as redis:
        for name, queues in {"worker": QUEUES, "sweeper": []}.items():
            beat = {"at": time.time() * 1_000, "ready": True, "queues": queues}
            redis.set(HEARTBEAT + name, json.dumps(beat))


def readiness(http: httpx.Client) -> tuple[int, dict[str | None, set[str]]]:
    """The status, and the names of the missing parts by cell."""
    response, missing = http.get("/readyz"), defaultdict(set)
    for part in response.json()["missing"]:
        missing[part.get("cell")].add(part["name"])
    assert response.json()["is_ready"] == (response.status_code == 200)
    return response.status_code, dict(missing)


@pytest.mark.parametrize("loss", ["killed", "silent"])
def test_the_api_is_ready_while_one_cell_can_answer_and_names_what_is_missing_by_cell(
    api: HttpApi, servers: Mapping[str, RedisServer], loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "READINESS_CACHED_FOR_S", 0.0)
    with api.stranger() as anybody:
        code, missing = readiness(anybody)
        assert (code, {*missing}) == (503, {"a", "b"})
        assert {"chorale.retrieve", "sweeper"} < missing["a"]
        put_to_work(servers["a"])
        code, missing = readiness(anybody)
        assert (code, {*missing}) == (200, {"b"})
        put_to_work(servers["b"])
        assert readiness(anybody) == (200, {})
        servers["a"].kill() if loss == "killed" else servers["a"].pause()
        assert readiness(anybody) == (200, {"a": {"redis"}})
        # A probe does not wait for the socket timeout of a silent cell.
        (part,) = anybody.get("/readyz").json()["missing"]
        assert part["why"].removeprefix("it does not answer") == {"killed": "", "silent": " in time"}[loss]
        servers["b"].kill() if loss == "killed" else servers["b"].pause()
        assert readiness(anybody) == (503, {"a": {"redis"}, "b": {"redis"}})


def test_the_health_page_shows_every_cell_and_that_one_is_lost(
    api: HttpApi, servers: Mapping[str, RedisServer]
) -> None:
    for server in servers.values():
        put_to_work(server)
    servers["a"].kill()
    with visitor(api) as browser:
        state = browser.get("/console/health.json").json()
        page = browser.get("/console/health").text
    assert (state["is_ready"], state["cells"]["a"]) == (True, None)
    assert [worker["name"] for worker in state["cells"]["b"]["workers"]] == ["sweeper", "worker"]
    for text in ("<h2>Cell a</h2>", "Its Redis does not answer", "<h2>Cell b</h2>", "<h3>Queues</h3>"):
        assert text in page


def test_without_cells_a_limited_call_costs_one_round_trip(tmp_path: Path) -> None:
    with (
        RedisServer() as server,
        HttpApi(Settings(home=tmp_path, redis_url=server.url, cells={})) as api,
        api.client(requests_per_minute=QUOTA) as client,
        server.client() as redis,
    ):
        assert called(client, 1) == [200]  # with the handshake of the connection
        redis.config_resetstat()
        assert called(client, 1) == [200]
        calls = {name: said["calls"] for name, said in redis.info("commandstats").items()}
    # One transaction, which is sent at once.
    transaction = {"multi": 1, "set": 1, "incrby": 1, "pttl": 1, "exec": 1}
    assert {name.removeprefix("cmdstat_"): count for name, count in calls.items()} == {
        **transaction,
        "config|resetstat": 1,
    }
