"""`chorale doctor` asks each source as a branch asks it: with a question or its vector, in a namespace that is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from cli.installation import Installation
from config.settings import Settings
from models.documents import Manifest
from search.engines.http.source import HttpSource
from tests.contracts.store_documents import MANIFEST
from tests.integration.cli.commands.findings import findings, the_finding
from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.models.used_embedder import use_embedder
from tests.support.pipelines.pipeline_files import LOCAL, branch
from tests.support.servers.search_server import SearchServer, says, sends
from tests.support.stores.one_engine import embedded_store

BY_VECTOR = '"{url}", method = "POST", body = {{ v = "{{vector}}" }}'
BY_TEXT = '"{url}/{{namespace}}?q={{question}}"'
ENCODERS = "".join(f'[encoders.{name}]\nkind = "onnx"\nmodel = "/nowhere"\n' for name in ("default", "small"))
Declare = Callable[..., Installation]


@pytest.fixture
def server() -> Iterator[SearchServer]:
    with SearchServer() as server:
        server.answer = says([{"id": 1}])
        yield server


@pytest.fixture
def declare(tmp_path: Path, server: SearchServer) -> Iterator[Declare]:
    """An installation with a source at this address, and two encoders of different dimensions."""
    made: list[Installation] = []

    def installation(address: str, more: str = "", *, local: str = "") -> Installation:
        options = f'{{ url = {address.format(url=server.url)}, id = "id" }}'
        source = f'[stores.theirs]\nkind = "http"\noptions = {options}\n'
        file = tmp_path / "pipeline.toml"
        file.write_text(local + source + branch("theirs", kind="http", store="theirs", more=more) + ENCODERS)
        made.append(Installation(Settings(home=tmp_path, pipeline_file=file), None))
        use_embedder(made[-1].resources, HashingEmbedder(dimension=8))
        use_embedder(made[-1].resources, HashingEmbedder(dimension=4), "small")
        return made[-1]

    yield installation
    for each in made:
        cast("HttpSource", each.resources.store("theirs")).close()
        if each.resources.written_stores:
            each.resources.writing_store.close()
            each.resources.documents.close()


def with_namespace(home: Path, manifest: Manifest) -> None:
    store = embedded_store(home / "corpus")
    store.create("law", manifest)
    store.close()


@pytest.mark.parametrize(("more", "numbers"), [("", 8), ('encoder = "small"', 4)])
def test_a_source_that_takes_vectors_gets_one_of_its_branch_s_encoder(
    declare: Declare, server: SearchServer, more: str, numbers: int
) -> None:
    assert findings(declare(BY_VECTOR, more), "stores") == []
    assert [len(request.body["v"]) for request in server.requests] == [numbers]


def test_the_missing_model_of_a_source_that_takes_vectors_is_found(declare: Declare) -> None:
    installation = declare(BY_VECTOR)
    del installation.resources.encoders._made["default"]
    assert the_finding(installation, "stores").what.startswith("store 'theirs' (model_missing): ")


def test_a_source_that_takes_vectors_gets_one_of_the_namespace_s_encoder_where_its_branch_names_none(
    declare: Declare, server: SearchServer, tmp_path: Path
) -> None:
    with_namespace(tmp_path, replace(MANIFEST, encoder="small"))
    assert findings(declare(BY_VECTOR, local=LOCAL), "stores") == []
    assert [len(request.body["v"]) for request in server.requests] == [4]


def test_a_source_with_the_namespace_in_its_address_is_asked_for_one_that_is_indexed_here(
    declare: Declare, server: SearchServer, tmp_path: Path
) -> None:
    with_namespace(tmp_path, MANIFEST)
    assert findings(declare(BY_TEXT, local=LOCAL), "stores") == []
    assert [request.target for request in server.requests] == ["/search/law?q=chorale"]


def test_a_refused_namespace_is_a_fault_only_where_the_source_declares_it(
    declare: Declare, server: SearchServer
) -> None:
    server.answer = sends(404)
    guessed = the_finding(declare(BY_TEXT), "stores")
    assert guessed.what.startswith(f"store 'theirs' (bad_index): {server.url}")
    assert (
        guessed.mend
        == "nothing, if it has no namespace 'default'; its option `namespaces` names those that it has"
    )
    assert guessed.is_remark
    for address in (f'{BY_TEXT}, namespaces = ["law"]', BY_VECTOR):
        declared = the_finding(declare(address), "stores")
        assert (declared.mend, declared.is_remark) == (
            "correct the declaration of the store in the pipeline",
            False,
        )
