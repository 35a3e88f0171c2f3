"""Encoders and rerankers behind an address: what a request and an indexing run do while the server is well, slow or wrong."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from math import inf
from typing import Any

import pytest
from chorale_client.keys import BREAKER
from chorale_client.wire_names import QUEUE_FUSION
from prometheus_client.parser import text_string_to_metric_families

from models.documents import Matrix
from models.errors import ManifestMismatch, ModelMissing, StageFailure
from monitoring.exporter import render
from tasks.indexing.embedding_anew import embed_anew
from tasks.worker.warming import warm_models
from tests.integration.tasks.answers import ids
from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.pipelines.indexed_texts import index_texts
from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.pipeline import CORPUS
from tests.support.pipelines.pipeline_files import LOCAL, branch
from tests.support.servers.chat_server import ChatServer, sends
from tests.support.servers.model_server import embeds

KEY = "sk-of-the-encoder"
TABLES = """
[encoders.default]
kind = "endpoint"
url = "{embeddings}"
model = "passages"
question_model = "query"
api_key_env = "TEST_ENCODER_KEY"

[rerankers.remote]
model = "any"
backend = "endpoint"
url = "{ranks}"

[configurations.rrf]
method = "rrf"

[configurations.reranked]
method = "rrf"
reranker = "remote"
"""
WELL = embeds(HashingEmbedder(dimension=16))


class Another(HashingEmbedder):
    def embed_questions(self, texts: Sequence[str], *, timeout_s: float = inf) -> Matrix:
        return super().embed_questions([text[::-1] for text in texts])


@pytest.fixture(scope="module")
def encoder() -> Iterator[ChatServer]:
    with ChatServer(WELL) as server:
        yield server


@pytest.fixture(scope="module")
def reranker() -> Iterator[ChatServer]:
    """Gives every passage about errors the best score."""

    def scores(handler: object, body: dict[str, list[str]]) -> None:
        rows = [
            f'{{"index": {at}, "score": {3 if "disk" in text else -3}}}'
            for at, text in enumerate(body["texts"])
        ]
        handler.send(200, f"[{','.join(rows)}]".encode())  # type: ignore[attr-defined]

    with ChatServer(scores) as server:
        yield server


@pytest.fixture(scope="module")
def pipeline(encoder: ChatServer, reranker: ChatServer) -> Iterator[OneProcess]:
    branches = branch("bm25") + branch("vector", "dense") + branch("hyde", "dense")
    text = LOCAL + TABLES.format(embeddings=encoder.url, ranks=reranker.origin) + branches
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TEST_ENCODER_KEY", KEY)
        settings = {"CHORALE_BREAKER_OPEN_S": "600"}
        with OneProcess.with_file(text, environment=settings) as started:
            index_texts(started.resources, "docs")
            started.resources.reranker("remote").warm()
            yield started


@pytest.fixture
def here(pipeline: OneProcess, encoder: ChatServer, reranker: ChatServer) -> OneProcess:
    encoder.forget()
    reranker.forget()
    pipeline.resources.encoder.questions._vectors.clear()
    # A busy machine may count a branch of the test before as late, which is a failure of the branch.
    for breaker in pipeline.redis.scan_iter(f"{BREAKER}*"):
        pipeline.redis.delete(breaker)
    return pipeline


def open_breaker(here: OneProcess) -> None:
    """Opens the encoder's breaker for an hour."""
    now_s, _ = here.redis.time()
    open_: dict[Any, Any] = {"opened_at": now_s * 1000, "open_until": (now_s + 3_600) * 1000, "failures": 5}
    here.redis.hset(f"{BREAKER}encoder:default", mapping=open_)


def test_every_branch_answers_and_the_key_is_sent(here: OneProcess, encoder: ChatServer) -> None:
    answer = here.ask("How is bread baked?", namespace="docs", cache="bypass")
    assert (answer.status, ids(answer)[0]) == ("complete", "bread")
    assert set(answer.hits[0].found_by) == {"bm25", "vector", "hyde"}
    assert set(encoder.keys) == {f"Bearer {KEY}"}
    # Both dense branches search with one vector of the question.
    assert [body["input"] for body in encoder.requests] == [["How is bread baked?"]]


def test_the_tokens_of_indexing_and_questions_are_in_the_metrics(here: OneProcess) -> None:
    def tokens() -> float:
        families = {
            family.name: family for family in text_string_to_metric_families(render(here.redis).decode())
        }
        samples = families["chorale_endpoint_tokens"].samples
        return sum(one.value for one in samples if one.labels == {"role": "encoder", "name": "default"})

    index_texts(here.resources, "tokens")
    indexed = tokens()
    here.ask("How is bread baked?", namespace="docs", cache="bypass")
    # The server reports one token for each text.
    assert indexed >= len(CORPUS)
    assert tokens() == indexed + 1


def test_an_encoder_that_hangs_costs_the_dense_branches_and_not_the_answer(
    here: OneProcess, encoder: ChatServer
) -> None:
    let_go, ended = threading.Event(), list[bool]()
    encoder.answer = lambda *_: ended.append(let_go.wait(60))
    answer = here.ask("How is bread baked?", namespace="docs", cache="bypass", timeout_s=1)
    assert ended == [], "the request waited for the encoder"
    let_go.set()
    assert (answer.status, ids(answer)[0]) == ("degraded", "bread")
    assert {missing.where for missing in answer.degraded} == {"search.vector", "search.hyde"}
    assert {str(missing.reason) for missing in answer.degraded} <= {"timeout", "late"}
    assert not any(KEY in missing.detail or "bread" in missing.detail for missing in answer.degraded)


def test_an_encoder_that_fails_is_asked_by_no_branch_for_a_while(
    here: OneProcess, encoder: ChatServer
) -> None:
    encoder.answer = sends(401)
    question, options = "How is bread baked?", {"namespace": "docs", "cache": "bypass"}
    for _ in range(here.resources.settings.breaker_failures):
        failed = here.ask(question, branches=["vector"], **options)
    assert [str(missing.reason) for missing in failed.degraded] == ["unauthorised"]
    # Neither the branch nor the store has failed.
    assert here.redis.keys(f"{BREAKER}*") == [f"{BREAKER}encoder:default".encode()]
    encoder.forget()
    answer = here.ask(question, **options)
    assert encoder.requests == []
    assert (answer.status, ids(answer)[0]) == ("degraded", "bread")
    assert set(answer.hits[0].found_by) == {"bm25"}
    reasons = {missing.where: str(missing.reason) for missing in answer.degraded}
    assert reasons == {"search.vector": "breaker_open", "search.hyde": "breaker_open"}
    assert all("'default', its encoder, not asked since" in missing.detail for missing in answer.degraded)
    here.drain()
    assert 'chorale_breaker_open{breaker="encoder:default"} 1.0' in render(here.redis).decode()
    here.redis.hset(f"{BREAKER}encoder:default", "open_until", 1)
    assert here.ask(question, **options).status == "complete"
    assert here.redis.keys(f"{BREAKER}*") == []


def test_a_vector_that_is_known_is_used_while_the_encoder_is_not_asked(
    here: OneProcess, encoder: ChatServer
) -> None:
    options = {"namespace": "docs", "cache": "bypass"}
    here.ask("How is bread baked?", **options)
    open_breaker(here)
    assert here.ask("How is bread baked?", **options).status == "complete"


def test_a_key_that_is_not_set_is_named_and_bm25_answers(
    here: OneProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TEST_ENCODER_KEY")
    monkeypatch.setattr(here.resources.encoders, "_made", {})
    answer = here.ask("How is bread baked?", namespace="docs", cache="bypass")
    assert (answer.status, ids(answer)[0]) == ("degraded", "bread")
    assert {str(missing.reason) for missing in answer.degraded} == {"not_configured"}
    assert all("TEST_ENCODER_KEY" in missing.detail for missing in answer.degraded)


def test_another_model_behind_the_same_name_indexes_nothing(here: OneProcess, encoder: ChatServer) -> None:
    index_texts(here.resources, "other")
    encoder.answer = embeds(Another(dimension=16))
    with pytest.raises(
        ManifestMismatch, match="the server of the encoder 'default' has another model than when"
    ):
        index_texts(here.resources, "other")
    embed_anew(here.resources, "other")
    index_texts(here.resources, "other")


def test_documents_stay_as_they_were_if_the_server_fails_while_they_are_embedded_again(
    here: OneProcess, encoder: ChatServer
) -> None:
    encoder.then = [WELL]
    encoder.answer = sends(400)
    with pytest.raises(StageFailure):
        embed_anew(here.resources, "docs")
    encoder.forget()
    assert ids(here.ask("How is bread baked?", namespace="docs", cache="bypass"))[0] == "bread"


def test_an_endpoint_reranks_and_its_failure_leaves_the_fused_order(
    here: OneProcess, reranker: ChatServer
) -> None:
    question = "How is bread baked?"
    options = {"namespace": "docs", "configuration": "reranked", "cache": "bypass"}
    fused = here.ask(question, namespace="docs", cache="bypass")
    answer = here.ask(question, **options)
    assert (answer.status, ids(answer)[0]) == ("complete", "error")
    assert ids(fused)[0] == "bread"
    reranker.answer = sends(503)
    answer = here.ask(question, **options)
    assert (answer.status, ids(answer)) == ("degraded", ids(fused))
    assert {missing.where for missing in answer.degraded} == {"rerank"}


def test_an_encoder_that_is_away_keeps_no_later_model_from_loading(
    encoder: ChatServer, reranker: ChatServer
) -> None:
    away = "http://127.0.0.1:9/v1"
    second = f'[encoders.second]\nkind = "endpoint"\nurl = "{encoder.url}"\nmodel = "passages"\n'
    tables = TABLES.format(embeddings=away, ranks=reranker.origin).replace("api_key_env", "# api_key_env")
    with OneProcess.with_file(LOCAL + tables + second + branch("vector", "dense")) as here:
        index_texts(here.resources, "docs", encoder="second")
        encoder.forget()
        reranker.forget()
        with pytest.raises(ModelMissing, match=r"127\.0\.0\.1:9"):
            warm_models(here.resources, ["chorale.vector", QUEUE_FUSION], here.resources.namespaces())
        assert [body["input"] for body in encoder.requests] == [["warm"]]
        assert [len(body["texts"]) for body in reranker.requests] == [2]


def test_no_language_model_writes_what_an_encoder_that_failed_cannot_embed(
    encoder: ChatServer,
) -> None:
    with ChatServer() as chat:
        written = f'[branches.hyde.options]\ngenerator = "openai"\nurl = "{chat.url}"\nmodel = "m"\n'
        rewritten = f'[branches.vector.options]\nexpansion = "openai"\nurl = "{chat.url}"\nmodel = "m"\n'
        table = f'[encoders.default]\nkind = "endpoint"\nurl = "{encoder.url}"\nmodel = "passages"\n'
        branches = branch("hyde", "dense", more=written) + branch("vector", "dense", more=rewritten)
        with OneProcess.with_file(LOCAL + table + branches) as here:
            index_texts(here.resources, "docs")
            open_breaker(here)
            answer = here.ask("How is bread baked?", namespace="docs")
            assert {str(missing.reason) for missing in answer.degraded} == {"breaker_open"}
            assert chat.requests == []
