"""`chorale doctor` and workers load a namespace from the stores that serve it, and not from one that waits for a move."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from chorale_client.wire_names import QUEUE_BULK, QUEUE_FUSION
from structlog.testing import capture_logs

from cli.installation import Installation
from config.settings import Settings
from search.documents.moving import move
from search.engines.postgresql.store import PostgresqlStore
from tasks.worker.warming import missing
from tests.integration.cli.commands.findings import findings, the_finding
from tests.support.pipelines.pipeline_files import LOCAL, branch
from tests.support.servers.databases import empty_database
from tests.support.servers.own_server import free_ports
from tests.support.stores.one_engine import embedded_store
from tests.support.stores.several_stores import MANIFEST, NS, a_document

OTHER = '[stores.other]\nkind = "postgresql"\noptions = { url_env = "ENGINE_URL", vectors = false }\n'
Declare = Callable[..., Installation]


@pytest.fixture
def declare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Declare]:
    """An installation that got a second store after documents were indexed into `local`; the branch searches `store`."""
    with_documents = embedded_store(tmp_path / "corpus")
    with_documents.create(NS, MANIFEST)
    with_documents.upsert(NS, [a_document("a")])
    with_documents.close()
    made: list[Installation] = []

    def installation(store: str = "local") -> Installation:
        file = tmp_path / "pipeline.toml"
        file.write_text(LOCAL + OTHER + branch("bm25", store=store))
        documents_url = f"sqlite:///{tmp_path / 'corpus' / 'corpus.db'}"
        settings = Settings(home=tmp_path, pipeline_file=file, documents_url=documents_url)
        made.append(Installation(settings, None))
        return made[-1]

    with empty_database("postgresql", tmp_path) as engine_url:
        monkeypatch.setenv("ENGINE_URL", engine_url.replace("+psycopg", ""))
        yield installation
        for each in made:
            each.resources.writing_store.close()
            each.resources.documents.close()


def logged(installation: Installation) -> list[Any]:
    """What a fusion worker says of the stores when it starts."""
    with capture_logs() as lines:
        assert missing(installation.resources, [QUEUE_FUSION]) == []
    return lines


def test_a_store_that_has_no_index_before_a_move_is_no_fault(declare: Declare) -> None:
    installation = declare()
    assert findings(installation, "documents") == []
    assert logged(installation) == []


def test_a_moved_namespace_is_read_from_its_new_store_alone(declare: Declare) -> None:
    installation = declare()
    move(installation.resources.writing_store, NS, ["other"])
    assert findings(installation, "documents") == []
    assert logged(installation) == []
    other = cast("PostgresqlStore", installation.resources.store("other"))
    other.drop(other.documents.index(NS, 30))
    finding = the_finding(installation, "documents")
    assert finding.what.startswith(f"namespace '{NS}': PostgreSQL has no index")
    assert finding.mend == f"`chorale verify --namespace {NS}` builds a lost index again"


def test_a_store_without_an_index_that_a_branch_searches_is_found_with_the_command_that_builds_it(
    declare: Declare,
) -> None:
    installation = declare(store="other")
    finding = the_finding(installation, "documents")
    assert finding.what == f"namespace '{NS}': the store 'other' has no index of namespace '{NS}' yet"
    assert finding.mend == f"`chorale verify --namespace {NS}` builds it"
    [line] = logged(installation)
    assert (line["event"], line["store"]) == ("not loaded", "other")


def test_a_worker_without_the_documents_database_names_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, [port] = tmp_path / "pipeline.toml", free_ports(1)
    file.write_text(LOCAL + OTHER + branch("bm25"))
    monkeypatch.setenv("ENGINE_URL", "postgresql://nowhere/chorale")
    documents_url = f"postgresql://chorale@127.0.0.1:{port}/chorale"
    installation = Installation(
        Settings(home=tmp_path, pipeline_file=file, documents_url=documents_url), None
    )
    [why] = missing(installation.resources, [QUEUE_BULK])
    assert why.startswith(f"the documents' database {documents_url} cannot be used: ")
