"""A real HTTP server that answers with pages, and sources that search it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from models.source_endpoints import HttpEndpoint
from search.engines.http.source import HttpSource
from tests.support.servers.search_server import (
    SearchServer,
    says,
)
from tests.support.stores.wiki_source import FIELDS, PAGES, Opens


@pytest.fixture(scope="module")
def running() -> Iterator[SearchServer]:
    with SearchServer() as server:
        yield server


@pytest.fixture
def server(running: SearchServer) -> SearchServer:
    running.answer = says({"items": PAGES, "found": {"all": 40}})
    running.asked.clear()
    return running


@pytest.fixture
def opens(server: SearchServer) -> Iterator[Opens]:
    """Opens the source `wiki` on that server with additional options."""
    made: list[HttpSource] = []

    def open_(*, key: str | None = None, **options: Any) -> HttpSource:
        usual = {"url": server.url, "params": {"q": "{question}", "limit": "{depth}"}, **FIELDS}
        made.append(HttpSource("wiki", HttpEndpoint(**{**usual, **options}), key=key))
        return made[-1]

    yield open_
    for source in made:
        source.close()
