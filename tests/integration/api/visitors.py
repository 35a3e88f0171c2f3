"""Searches over HTTP that the trail has, browsers that have logged in to the console, and what they read there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from records.keys.grant import SCOPES
from tests.support.servers.http_api import HttpApi
from tests.support.waiting import until

PAGES = ("search", "requests", "compare", "judge", "jobs", "corpus", "health", "keys")
MARKUP = '<script>alert(1)</script>"><b onclick="x">'
NOT_OPERATORS = frozenset(SCOPES) - {"admin"}
"""The scopes of a key that sees its own tenant alone."""


def search(client: httpx.Client, text: str, **options: Any) -> str:
    response = client.post("/v1/searches", json={"questions": [text], "cache": "bypass", **options})
    assert response.status_code == 200, response.text
    request_id: str = response.json()["request_id"]
    return request_id


def wait_listed(client: httpx.Client, *ids: str) -> None:
    def is_listed() -> bool:
        return {*ids} <= {one["request_id"] for one in client.get("/v1/audit").json()["searches"]}

    until(is_listed, 30)


def record(api: HttpApi, tenant: str, *questions: str, **options: Any) -> list[str]:
    """The ids of a tenant's searches, one for each question, which are in the trail."""
    with api.client(tenant) as client:
        ids = [search(client, text, namespace="default", **options) for text in questions]
        wait_listed(client, *ids)
    return ids


@contextmanager
def visitor(api: HttpApi, tenant: str = "acme", **rights: Any) -> Iterator[httpx.Client]:
    """A browser that has logged in with a new key of this tenant."""
    with api.stranger() as browser:
        assert log_in(browser, api.key(tenant, **rights)).status_code == 303
        yield browser


def log_in(browser: httpx.Client, key: str, **fields: str) -> httpx.Response:
    return browser.post("/console/login", data={"key": key, **fields})


def token_of(browser: httpx.Client, page: str = "jobs") -> str:
    match = re.search(r'name="token" value="([^"]+)"', browser.get(f"/console/{page}").text)
    assert match is not None
    return match[1]


def page_answer(browser: httpx.Client, question: str, **options: str) -> dict[str, Any]:
    """The answer of the search page."""
    parameters = {"q": question, "namespace": "default", **options}
    answer: dict[str, Any] = browser.get("/console/search.json", params=parameters).json()["answer"]
    return answer
