"""The API refuses a call by its headers, before any of the body has arrived."""

from __future__ import annotations

import socket

import httpx
import pytest

from api.caller import MOST_BRACKETS
from records.keys.grant import SCOPES
from tests.support.servers.http_api import HttpApi, description

Route = tuple[str, str]


def routes_with_a_body() -> list[Route]:
    return [
        (method.upper(), path.replace("{", "").replace("}", ""))
        for path, operations in description()["paths"].items()
        for method, operation in operations.items()
        if "requestBody" in operation
    ]


ROUTES = routes_with_a_body()
JSON_ROUTES = [route for route in ROUTES if route != ("POST", "/v1/jobs")]


def status_of_headers(api: HttpApi, route: Route, *headers: str) -> int:
    """Sends only the headers of a call, and returns the status of the response."""
    method, path = route
    where = httpx.URL(api.origin)
    head = "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", "Transfer-Encoding: chunked", *headers])
    with socket.create_connection((where.host, where.port), timeout=20) as connection:
        connection.sendall(f"{head}\r\n\r\n".encode())
        return int(connection.recv(100).split()[1])


def bearer(key: str) -> str:
    return f"Authorization: Bearer {key}"


def test_routes_with_a_body_are_known() -> None:
    assert ("POST", "/v1/searches") in ROUTES
    assert len(JSON_ROUTES) == len(ROUTES) - 1 >= 4


@pytest.mark.parametrize("route", ROUTES)
def test_without_a_valid_key_no_body_is_read(api: HttpApi, route: Route) -> None:
    assert status_of_headers(api, route, "Content-Type: application/json") == 401
    assert status_of_headers(api, route, "Content-Type: application/json", bearer("chorale_wrong")) == 401


@pytest.mark.parametrize("route", ROUTES)
def test_without_the_scope_no_body_is_read(api: HttpApi, route: Route) -> None:
    key = api.key(scopes=frozenset(SCOPES) - {"admin", "search:run", "documents:write", "jobs:write"})
    assert status_of_headers(api, route, "Content-Type: application/json", bearer(key)) == 403


@pytest.mark.parametrize("route", JSON_ROUTES)
@pytest.mark.parametrize(
    "kind",
    [
        "Content-Type: application/x-www-form-urlencoded",  # what `curl -d` sends
        "Content-Type: text/plain",
        "Content-Type: application/xml",
        "X-None: 1",
    ],
)
def test_a_body_that_is_not_said_to_be_json_is_not_read(api: HttpApi, route: Route, kind: str) -> None:
    assert status_of_headers(api, route, kind, bearer(api.key())) == 415


def test_a_body_of_brackets_is_refused_before_they_become_objects(api: HttpApi) -> None:
    body = b'{"documents": [' + b"[]," * MOST_BRACKETS + b"[]]}"
    with api.client() as client:
        refused = client.post(
            "/v1/namespaces/default/documents", content=body, headers={"Content-Type": "application/json"}
        )
    assert (refused.status_code, refused.json()["code"]) == (413, "too_large")
    assert f"{MOST_BRACKETS:,}" in refused.json()["detail"]
