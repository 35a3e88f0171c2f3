"""`chorale doctor` finds what a PostgreSQL lacks before the first document is written to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from cli.installation import Installation
from config.settings import Settings
from search.engines.postgresql import tables
from search.protocol import Engine
from tests.integration.cli.commands.findings import findings, the_finding
from tests.support.pipelines.pipeline_files import branch
from tests.support.servers.postgresql_server import PostgresqlServer

Declare = Callable[..., Installation]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresqlServer]:
    with PostgresqlServer() as server:
        server.execute("CREATE ROLE app LOGIN")
        yield server


@pytest.fixture
def database(server: PostgresqlServer) -> Iterator[str]:
    """The address of a database that belongs to the role `app`."""
    with server.database() as name:
        server.execute(f"ALTER DATABASE {name} OWNER TO app")
        yield name


@pytest.fixture
def declare(
    server: PostgresqlServer, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Declare]:
    made: list[Installation] = []

    def installation(options: str = "", *, user: str = "app") -> Installation:
        monkeypatch.setenv("CHORALE_DATABASE_URL", server.url(database, user=user))
        file = tmp_path / "pipeline.toml"
        store = f'[stores.server]\nkind = "postgresql"\noptions = {{ {options} }}\n'
        file.write_text(store + branch("bm25", store="server"))
        made.append(Installation(Settings(home=tmp_path, pipeline_file=file), None))
        return made[-1]

    yield installation
    for each in made:
        cast("Engine", each.resources.store("server")).close()
        each.resources.documents.close()


def test_an_owner_who_may_not_create_the_extension_is_told_who_may(
    declare: Declare, server: PostgresqlServer, database: str
) -> None:
    finding = the_finding(declare(), "stores")
    assert finding.what == (
        "store 'server' (not_configured): vectors need pgvector 0.8 or newer (permission denied to create extension \"vector\")"
    )
    assert "let a superuser run `CREATE EXTENSION vector`" in finding.mend
    assert findings(declare("vectors = false"), "stores") == []
    server.execute("CREATE EXTENSION vector", database)
    assert findings(declare(), "stores") == []


def test_the_extension_that_a_superuser_s_first_document_creates_is_not_missing_and_not_created_by_the_check(
    declare: Declare, server: PostgresqlServer, database: str
) -> None:
    assert findings(declare(user="postgres"), "stores") == []
    assert the_finding(declare(), "stores").what.startswith("store 'server' (not_configured): vectors need")


def test_an_old_pgvector_and_an_old_server_are_found(
    declare: Declare, server: PostgresqlServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.execute("CREATE EXTENSION vector", database)
    server.execute("UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'", database)
    assert "(the database has 0.7.4)" in the_finding(declare(), "stores").what
    monkeypatch.setattr(tables, "OLDEST_SERVER", 99)
    old = the_finding(declare("vectors = false"), "stores")
    assert old.what.startswith("store 'server' (not_configured): PostgreSQL at postgresql://app@127.0.0.1")
    assert old.what.endswith(" is of version 18")
    assert old.mend == "move the database to PostgreSQL 99 or newer"
