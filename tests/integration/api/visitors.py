"""Browsers that have logged in to the console, and what they read there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.support.servers.http_api import HttpApi

PAGES = ("search", "requests", "compare", "judge", "jobs", "corpus", "health", "keys")
MARKUP = '<script>alert(1)</script>"><b onclick="x">'


@contextmanager
def visitor(api: HttpApi, tenant: str = "acme", **rights: Any) -> Iterator[httpx.Client]:
    """A browser that has logged in with a new key of this tenant."""
    with httpx.Client(base_url=api.origin, timeout=60) as browser:
        assert log_in(browser, api.key(tenant, **rights)).status_code == 303
        yield browser


def log_in(browser: httpx.Client, key: str, **fields: str) -> httpx.Response:
    return browser.post("/console/login", data={"key": key, **fields})


def token_of(browser: httpx.Client, page: str = "jobs") -> str:
    found = re.search(r'name="token" value="([^"]+)"', browser.get(f"/console/{page}").text)
    assert found is not None
    return found[1]


def asked(browser: httpx.Client, question: str, **options: str) -> dict[str, Any]:
    """The answer of the search page."""
    parameters = {"q": question, "namespace": "default", **options}
    answer: dict[str, Any] = browser.get("/console/search.json", params=parameters).json()["answer"]
    return answer
