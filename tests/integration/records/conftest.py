"""A database of each kind with the newest schema."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from records.database import upgrade
from tests.support.servers.databases import empty_database


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with empty_database(request.param, tmp_path_factory.mktemp("database")) as url:
        upgrade(url)
        yield url
