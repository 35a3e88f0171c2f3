"""A second declared store has the documents in another database: commands name the file in which the first one has them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis

from cli.installation import Installation
from cli.namespace_states import unread_files
from config.settings import Settings
from search.documents.moving import move
from tests.integration.cli.commands.findings import findings, the_finding
from tests.integration.cli.commands.printed import complaint, output
from tests.support.command_line import in_process
from tests.support.pipelines.pipeline_files import LOCAL, branch
from tests.support.servers.redis_server import RedisServer
from tests.support.stores.one_engine import embedded_store
from tests.support.stores.several_stores import MANIFEST, NS, a_document

OTHER = '[stores.other]\nkind = "embedded"\noptions = { folder = "other" }\n'
Declare = Callable[..., Installation]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file with the documents of the embedded store."""
    store = embedded_store(tmp_path / "corpus")
    store.create(NS, MANIFEST)
    store.upsert(NS, [a_document("a")])
    store.close()
    return tmp_path / "corpus" / "corpus.db"


@pytest.fixture
def declare(tmp_path: Path) -> Iterator[Declare]:
    made: list[Installation] = []

    def installation(*stores: str, documents_url: str | None = None, searched: str = "local") -> Installation:
        pipeline_file = tmp_path / "pipeline.toml"
        pipeline_file.write_text("".join(stores) + branch("bm25", store=searched))
        settings = Settings(home=tmp_path, pipeline_file=pipeline_file, documents_url=documents_url)
        made.append(Installation(settings, None))
        return made[-1]

    yield installation
    for each in made:
        each.resources.writing_store.close()
        each.resources.documents.close()


def test_the_doctor_and_the_list_of_namespaces_name_the_file_and_the_variable(
    declare: Declare, file: Path, tmp_path: Path
) -> None:
    finding = the_finding(declare(LOCAL, OTHER), "documents")
    assert finding.what == (
        f"the documents of {NS} are in {file}, which an installation with several stores does not read by itself"
    )
    url = f"sqlite:///{file}"
    assert finding.mend == f"set CHORALE_DOCUMENTS_URL={url} for every process, or move the file away"
    environment = {"CHORALE_HOME": str(tmp_path), "CHORALE_PIPELINE_FILE": str(tmp_path / "pipeline.toml")}
    listed = output(in_process("namespaces", "list", **environment))
    assert "there are no namespaces yet" in listed
    assert f"the documents of {NS} are in " in listed
    assert "set CHORALE_DOCUMENTS_URL=sqlite:///" in listed

    assert findings(declare(LOCAL, OTHER, documents_url=url), "documents") == []
    assert NS in output(in_process("namespaces", "list", **environment, CHORALE_DOCUMENTS_URL=url))


def test_the_doctor_builds_no_index_in_a_store_that_has_none(
    declare: Declare, file: Path, tmp_path: Path
) -> None:
    installation = declare(LOCAL, OTHER, documents_url=f"sqlite:///{file}", searched="other")
    documents = installation.resources.documents
    rows, generation = documents.table.all_indexes(NS), documents.generation(NS)
    finding = the_finding(installation, "documents")
    assert finding.what == f"namespace '{NS}': the store 'other' has no index of namespace '{NS}' yet"
    assert finding.mend == f"`chorale verify --namespace {NS}` builds it"
    assert (documents.table.all_indexes(NS), documents.generation(NS)) == (rows, generation)
    assert not (tmp_path / "other").exists()


def test_a_single_embedded_store_names_the_file_of_several_stores_and_reads_it_where_its_own_is(
    declare: Declare, tmp_path: Path
) -> None:
    several = declare(LOCAL, OTHER)
    several.resources.writing_store.create(NS, MANIFEST)
    several.resources.writing_store.upsert(NS, [a_document("a")])
    move(several.resources.writing_store, NS, ["other"])
    several.resources.writing_store.close()
    several.resources.documents.close()
    file, own = tmp_path / "documents.db", tmp_path / "corpus" / "corpus.db"

    single = declare(LOCAL)
    finding = the_finding(single, "documents")
    assert (
        finding.what
        == f"the documents of {NS} are in {file}, which an installation with a single embedded store does not read"
    )
    assert finding.mend == (
        f"stop every process, and move the file, with those whose names go on with -wal and -shm, in place of {own}; or move it away"
    )
    single.resources.documents.close()
    for path in own.parent.glob("corpus.db*"):
        path.rename(tmp_path / f"empty {path.name}")
    for path in tmp_path.glob("documents.db*"):
        path.rename(own.with_name(path.name.replace("documents.db", "corpus.db")))
    again = declare(LOCAL)
    finding = the_finding(again, "documents")
    assert finding.what == f"namespace '{NS}' was moved to other, which is not declared here"
    assert finding.mend == f"declare it, or let `chorale namespaces rebuild {NS} --store local` move it back"
    move(again.resources.writing_store, NS, ["local"])
    assert findings(again, "documents") == []
    assert [state.documents for state in again.resources.writing_store.namespaces()] == [1]


def test_a_namespace_is_not_moved_while_a_process_has_another_pipeline_file(
    declare: Declare, file: Path, tmp_path: Path, redis_server: RedisServer, redis_client: Redis
) -> None:
    """A process without the new store would fail each search of the moved namespace."""
    declare(LOCAL, OTHER)
    environment = {
        "CHORALE_HOME": str(tmp_path),
        "CHORALE_PIPELINE_FILE": str(tmp_path / "pipeline.toml"),
        "CHORALE_DOCUMENTS_URL": f"sqlite:///{file}",
        "CHORALE_REDIS_URL": redis_server.url,
    }
    seconds, _ = redis_client.time()
    beat = {"at": seconds * 1000, "ready": True, "queues": ["chorale.bm25"], "wire": 1}
    redis_client.set("chorale:heartbeat:bm25", json.dumps(beat | {"about": {"pipeline": "old"}}))
    rebuild = ("namespaces", "rebuild", NS, "--store", "other")
    refused = complaint(in_process(*rebuild, **environment))
    assert "bm25 have another pipeline file than this program; set CHORALE_PIPELINE_FILE" in refused
    redis_client.delete("chorale:heartbeat:bm25")
    assert output(in_process(*rebuild, **environment)) == f"{NS}: served by other, with 1 document"


def test_nothing_is_said_of_a_single_store_and_of_documents_that_are_in_both(
    declare: Declare, file: Path
) -> None:
    assert list(unread_files(declare(LOCAL))) == []
    several = declare(LOCAL, OTHER)
    several.resources.writing_store.create(NS, MANIFEST)
    assert list(unread_files(several)) == []


def test_nothing_is_made_where_there_are_no_documents_yet(declare: Declare, tmp_path: Path) -> None:
    assert list(unread_files(declare(LOCAL, OTHER))) == []
    assert [path.name for path in tmp_path.iterdir()] == ["pipeline.toml"]
