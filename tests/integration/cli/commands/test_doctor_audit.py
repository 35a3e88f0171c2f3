"""`chorale doctor` and an audit database that others hold."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from audit.database import open_database
from audit.schema import upgrade
from cli.doctor.audit_trail import schema
from cli.installation import Installation
from config.settings import Settings
from tests.support.servers.database_process import line_of, started
from tests.support.servers.databases import empty_database


@pytest.fixture(params=["sqlite", "postgresql"])
def installation(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Installation]:
    with empty_database(request.param, tmp_path) as url:
        upgrade(url)
        yield Installation(Settings(home=tmp_path, audit_url=url), None)


@pytest.mark.slow
def test_a_database_that_somebody_holds_is_found_at_once(installation: Installation) -> None:
    assert list(schema(installation)) == []
    with started("hold", installation.settings.audit_database_url) as holder:
        assert line_of(holder) == "locked"
        (finding,) = schema(installation)
        assert "cannot be written" in finding.what
        assert "lock" in finding.what.partition("cannot be written")[2]
    assert list(schema(installation)) == []


def test_a_short_write_lock_gives_no_finding(installation: Installation) -> None:
    writer = open_database(installation.settings.audit_database_url)
    lock = {"sqlite": "DELETE FROM chorale_request", "postgresql": "LOCK TABLE chorale_request"}
    began = threading.Event()

    def write() -> None:
        with writer.begin() as connection:
            connection.exec_driver_sql(lock[writer.dialect.name])
            began.set()
            time.sleep(0.3)

    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(write)
        assert began.wait(10)
        assert list(schema(installation)) == []
        writing.result()
    writer.dispose()
