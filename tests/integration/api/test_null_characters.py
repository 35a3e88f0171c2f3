"""U+0000, which PostgreSQL refuses in a text, is the caller's fault with every database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from config.settings import Settings
from tests.support.servers.databases import empty_database
from tests.support.servers.http_api import HttpApi
from tests.support.servers.redis_server import RedisServer

BREAD: dict[str, Any] = {
    "content": b'{"text": "how is bread baked?"}\n',
    "headers": {"Content-Type": "application/jsonl"},
}


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def client(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    if request.param == "sqlite":
        with request.getfixturevalue("idle_api").client("acme") as client:
            yield client
        return
    home = tmp_path_factory.mktemp("home")
    with (
        RedisServer() as redis,
        empty_database(request.param, home) as url,
        HttpApi(Settings(home=home, redis_url=redis.url, audit_url=url)) as api,
        api.client("acme") as client,
    ):
        yield client


@pytest.mark.parametrize("path", ["audit/t.acme.%00", "jobs/t.acme.%00", "jobs/t.acme.%00/results"])
def test_in_a_path_it_names_nothing(client: httpx.Client, path: str) -> None:
    response = client.get(f"/v1/{path}")
    assert (response.status_code, response.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize("query", ["audit?status=%00", "audit?correlation_id=a%00b", "jobs?name=%00"])
def test_in_a_parameter_it_is_refused_by_name(client: httpx.Client, query: str) -> None:
    response = (
        client.post(f"/v1/{query}", **BREAD) if query.startswith("jobs") else client.get(f"/v1/{query}")
    )
    assert (response.status_code, response.json()["code"]) == (422, "invalid"), response.text
    assert response.json()["field"] == query.partition("?")[2].partition("=")[0]
