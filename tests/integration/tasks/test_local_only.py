"""A namespace that is `local_only`: no text of it is sent to an encoder, a reranker or a language model behind an address."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from models.errors import ManifestMismatch, NotConfigured
from tasks.indexing.embedding_anew import embed_anew
from tasks.indexing.namespace_writer import create_namespace, encoder_of
from tests.integration.tasks.answers import ids
from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.pipelines.indexed_texts import index_texts
from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.pipeline_files import LOCAL, branch
from tests.support.servers.chat_server import ChatServer

REFUSED = "the namespace is local_only, and the encoder 'away' is behind an address"


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    """Takes the place of an encoder, a reranker and a language model."""
    with ChatServer() as server:
        yield server


@pytest.fixture(scope="module")
def pipeline(server: ChatServer) -> Iterator[OneProcess]:
    tables = f"""
[encoders.away]
kind = "endpoint"
url = "{server.url}"
model = "m"

[rerankers.away]
backend = "endpoint"
url = "{server.origin}"
model = "m"

[configurations.rrf]
method = "rrf"

[configurations.reranked]
method = "rrf"
reranker = "away"
"""
    writer = f'[branches.hyde.options]\ngenerator = "openai"\nurl = "{server.url}"\nmodel = "m"\n'
    branches = branch("bm25") + branch("vector", "dense") + branch("hyde", "dense", more=writer)
    embedders = {"default": HashingEmbedder(dimension=16)}
    with OneProcess.with_file(LOCAL + tables + branches, embedders=embedders) as started:
        create_namespace(started.resources, "patients", local_only=True)
        index_patients(started)
        yield started


@pytest.fixture
def here(pipeline: OneProcess, server: ChatServer) -> OneProcess:
    server.forget()
    return pipeline


def index_patients(here: OneProcess, encoder: str | None = None, *, rebuild: bool = False) -> None:
    texts = {"bread": ("Bread", "It is baked from flour.")}
    index_texts(here.resources, "patients", texts, encoder=encoder, rebuild=rebuild)


def is_local_only(here: OneProcess, namespace: str) -> bool:
    manifest = here.resources.writing_store.known(namespace).manifest
    return manifest.local_only


def test_an_encoder_behind_an_address_is_refused(here: OneProcess, server: ChatServer) -> None:
    with pytest.raises(NotConfigured, match=REFUSED):
        create_namespace(here.resources, "others", "away", local_only=True)
    with pytest.raises(NotConfigured, match=REFUSED):
        index_patients(here, "away")
    with pytest.raises(NotConfigured, match=REFUSED):
        index_patients(here, "away", rebuild=True)
    with pytest.raises(NotConfigured, match=REFUSED):
        embed_anew(here.resources, "patients", encoder="away")
    # What workers embed before they write, and what the command line warms.
    with pytest.raises(NotConfigured, match=REFUSED):
        encoder_of(here.resources, "patients", "away")
    assert server.requests == []


def test_neither_reranker_nor_language_model_is_sent_a_text(here: OneProcess, server: ChatServer) -> None:
    answer = here.ask("How is bread baked?", namespace="patients", configuration="reranked")
    assert server.requests == []
    assert (answer.status, ids(answer)) == ("degraded", ["bread"])
    reasons = {missing.where: str(missing.reason) for missing in answer.degraded}
    assert reasons == {"hypothesis": "not_configured", "rerank": "not_configured"}
    assert all("the namespace is local_only" in missing.detail for missing in answer.degraded)


def test_a_namespace_stays_local_only_when_it_is_built_again(here: OneProcess) -> None:
    index_patients(here, rebuild=True)
    assert is_local_only(here, "patients")
    embed_anew(here.resources, "patients")
    assert is_local_only(here, "patients")
    create_namespace(here.resources, "patients")
    assert is_local_only(here, "patients")


def test_a_namespace_that_is_there_does_not_become_local_only(here: OneProcess) -> None:
    create_namespace(here.resources, "plain")
    with pytest.raises(ManifestMismatch, match="'plain' is there already and is not local_only"):
        create_namespace(here.resources, "plain", local_only=True)


def test_an_encoder_that_is_declared_anew_behind_an_address_gets_no_question(
    here: OneProcess, server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoders = here.resources.encoders
    monkeypatch.setitem(encoders._made, "default", encoders["away"])
    answer = here.ask("How is bread baked?", namespace="patients", branches=["vector"], cache="bypass")
    assert server.requests == []
    assert [str(missing.reason) for missing in answer.degraded] == ["not_configured"]
