"""A store of jobs on each kind of database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from records.jobs.store import Jobs


@pytest.fixture
def store(engine: Engine, database_url: str) -> Iterator[Jobs]:
    """A store without jobs."""
    opened = Jobs(database_url)
    yield opened
    opened.close()
