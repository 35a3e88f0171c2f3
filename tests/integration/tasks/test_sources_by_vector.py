"""A source that takes vectors: its branch embeds the question as a branch of kind `vector` does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tasks.indexing.namespace_writer import create_namespace
from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.pipeline_files import LOCAL, branch
from tests.support.servers.chat_server import ChatServer
from tests.support.servers.search_server import SearchServer, says

QUESTION = "Who pays for the repairs?"
DEFAULT, SMALL = HashingEmbedder(dimension=16), HashingEmbedder(dimension=8)


@pytest.fixture(scope="module")
def theirs() -> Iterator[SearchServer]:
    with SearchServer() as server:
        server.answer = says([{"id": "repairs", "text": "The landlord pays.", "score": 0.9}])
        yield server


@pytest.fixture(scope="module")
def away() -> Iterator[ChatServer]:
    with ChatServer() as server:
        yield server


@pytest.fixture(scope="module")
def here(theirs: SearchServer, away: ChatServer) -> Iterator[OneProcess]:
    tables = f"""
[stores.theirs]
kind = "http"
options = {{ url = "{theirs.url}", method = "POST", body = {{ v = "{{vector}}" }}, id = "id", text = "text", score = "score" }}
[encoders.small]
model = "any"
[encoders.away]
kind = "endpoint"
url = "{away.url}"
model = "any"
"""
    sources = [
        branch(name, kind="http", store="theirs", more=more)
        for name, more in {
            "plain": "",
            "by_small": 'encoder = "small"',
            "by_away": 'encoder = "away"',
        }.items()
    ]
    text = LOCAL + tables + branch("bm25") + "".join(sources)
    with OneProcess.with_file(text, embedders={"default": DEFAULT, "small": SMALL}) as pipeline:
        create_namespace(pipeline.resources, "letters", "small")
        create_namespace(pipeline.resources, "patients", local_only=True)
        yield pipeline
        pipeline.resources.store("theirs").close()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("branch_name", "namespace", "embedder"),
    [("plain", "theirs", DEFAULT), ("plain", "letters", SMALL), ("by_small", "patients", SMALL)],
    ids=["the default encoder", "the encoder of the namespace", "the encoder of the branch"],
)
def test_the_question_is_embedded_by_the_encoder_of_the_branch_else_of_the_namespace(
    here: OneProcess, theirs: SearchServer, branch_name: str, namespace: str, embedder: HashingEmbedder
) -> None:
    theirs.requests.clear()
    answer = here.ask(QUESTION, namespace=namespace, branches=[branch_name], cache="bypass")
    assert (answer.status, [hit.document_id for hit in answer.hits]) == ("complete", ["theirs/repairs"])
    [request] = theirs.requests
    assert request.body == {"v": embedder.embed_questions([QUESTION])[0].tolist()}
    stages = [line.stage for line in answer.stages]
    assert stages.index("embed") < stages.index(f"search.{branch_name}")


def test_documents_are_not_embedded_by_the_encoder_of_a_source(here: OneProcess) -> None:
    manifest = here.resources.writing_store.known("letters").manifest
    assert [*manifest.embedders] == ["small"]


def test_an_encoder_behind_an_address_gets_no_question_of_a_namespace_that_is_local_only(
    here: OneProcess, away: ChatServer
) -> None:
    answer = here.ask(QUESTION, namespace="patients", branches=["by_away"], cache="bypass")
    assert (answer.status, away.requests) == ("failed", [])
    assert "the encoder 'away' is behind an address" in answer.degraded[0].detail
