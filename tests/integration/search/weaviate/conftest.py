"""One Weaviate for the tests of a module; its namespaces are dropped after each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from search.weaviate.store import WeaviateStore
from tests.support.servers.weaviate_server import shared_weaviate


@pytest.fixture(scope="module")
def opened() -> Iterator[WeaviateStore]:
    with shared_weaviate() as store:
        yield store


@pytest.fixture
def store(opened: WeaviateStore) -> Iterator[WeaviateStore]:
    yield opened
    for name in ("ns", "open"):
        opened.drop(name)
