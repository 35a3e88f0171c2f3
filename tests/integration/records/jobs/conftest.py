"""A store of jobs on each kind of database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from models.installation_tables import job_table, segment_table
from records.database import open_database, upgrade
from records.jobs.store import Jobs
from tests.support.servers.databases import empty_database


@pytest.fixture(scope="package", params=["sqlite", "postgresql"])
def jobs_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a database with the newest schema."""
    with empty_database(request.param, tmp_path_factory.mktemp("jobs")) as url:
        upgrade(url)
        yield url


@pytest.fixture
def store(jobs_url: str) -> Iterator[Jobs]:
    """A store without jobs."""
    engine = open_database(jobs_url)
    with engine.begin() as connection:
        for table in (segment_table, job_table):
            connection.execute(table.delete())
    engine.dispose()
    opened = Jobs(jobs_url)
    yield opened
    opened.close()
