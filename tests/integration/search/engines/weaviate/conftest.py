"""One Weaviate for the tests of a module; its namespace is dropped after each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from search.engines.weaviate.store import WeaviateStore
from tests.support.servers.weaviate_server import shared_weaviate
from tests.support.stores.known_index import index_of


@pytest.fixture(scope="module")
def opened() -> Iterator[WeaviateStore]:
    with shared_weaviate() as store:
        yield store


@pytest.fixture
def store(opened: WeaviateStore) -> Iterator[WeaviateStore]:
    yield opened
    opened.drop(index_of())
