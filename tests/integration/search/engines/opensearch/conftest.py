from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.servers.opensearch_server import NEWEST, OpenSearchServer


@pytest.fixture(scope="package")
def server() -> Iterator[OpenSearchServer]:
    """One server for all tests that do not harm it."""
    with OpenSearchServer() as server:
        yield server


@pytest.fixture(scope="package")
def newest() -> Iterator[OpenSearchServer]:
    with OpenSearchServer(NEWEST) as server:
        yield server
