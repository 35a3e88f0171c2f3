"""A second declared store has the documents in another database: commands name the file in which the first one has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli.installation import Installation
from cli.namespace_states import unread_files
from config.settings import Settings
from tests.integration.cli.commands.findings import findings, the_finding
from tests.integration.cli.commands.printed import output
from tests.support.command_line import in_process
from tests.support.pipelines.pipeline_files import LOCAL, branch
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
