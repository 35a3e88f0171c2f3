"""A real HTTP server that answers with pages, and sources that search it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from search.engines.http.source import HttpSource
from search.kinds import open_http_source
from tests.support.servers.search_server import SearchServer, says
from tests.support.stores.wiki_source import FIELDS, PAGES, Opens


@pytest.fixture(scope="module")
def running() -> Iterator[SearchServer]:
    with SearchServer() as server:
        yield server


@pytest.fixture
def server(running: SearchServer) -> SearchServer:
    running.answer = says({"items": PAGES, "found": {"all": 40}})
    running.requests.clear()
    return running


@pytest.fixture
def opens(server: SearchServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opens]:
    """Opens the source `wiki` on that server with additional options; `key` is what the variable WIKI_KEY has."""
    made: list[HttpSource] = []

    def open_(*, key: str | None = None, **options: Any) -> HttpSource:
        if key is not None:
            monkeypatch.setenv("WIKI_KEY", key)
        usual = {"url": server.url, "params": {"q": "{question}", "limit": "{depth}"}, **FIELDS}
        made.append(open_http_source("wiki", {**usual, **options}))
        return made[-1]

    yield open_
    for source in made:
        source.close()
