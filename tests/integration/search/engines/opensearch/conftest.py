from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.servers.opensearch_server import NEWEST, OLDEST, OpenSearchServer


@pytest.fixture(scope="package", params=[OLDEST, NEWEST])
def server(request: pytest.FixtureRequest) -> Iterator[OpenSearchServer]:
    """One server of each version for all tests that do not harm it."""
    with OpenSearchServer(request.param) as server:
        yield server


@pytest.fixture(scope="package")
def without_vectors() -> Iterator[OpenSearchServer]:
    with OpenSearchServer(NEWEST, vectors=False) as server:
        yield server
