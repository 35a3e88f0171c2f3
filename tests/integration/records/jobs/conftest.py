"""A store of jobs on each kind of database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from models.installation_tables import job_table, segment_table
from records.database import open_database
from records.jobs.store import Jobs


@pytest.fixture
def store(database_url: str) -> Iterator[Jobs]:
    """A store without jobs."""
    engine = open_database(database_url)
    with engine.begin() as connection:
        for table in (segment_table, job_table):
            connection.execute(table.delete())
    engine.dispose()
    opened = Jobs(database_url)
    yield opened
    opened.close()
