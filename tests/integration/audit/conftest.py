"""A fresh audit database of each kind."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, make_url

from audit.database import open_database
from audit.schema import upgrade
from tests.services import offered


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a database without any table."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/audit.db"
        return
    server = make_url(
        offered("postgresql", "set CHORALE_TEST_POSTGRESQL_URL to a role that may create databases")
    )
    name = f"chorale_audit_{uuid.uuid4().hex}"
    administrator = create_engine(server, isolation_level="AUTOCOMMIT")
    with administrator.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
        yield server.set(database=name).render_as_string(hide_password=False)
        connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
    administrator.dispose()


@pytest.fixture
def audit_url(empty_url: str) -> str:
    """The address of a database with the newest schema and no row."""
    upgrade(empty_url)
    return empty_url


@pytest.fixture
def engine(audit_url: str) -> Iterator[Engine]:
    opened = open_database(audit_url)
    yield opened
    opened.dispose()
