"""Two encoders over one corpus: each branch finds by its own, and whatever changes the documents changes both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chorale_client import Answer

from models.errors import WrongDeclaration
from tasks.indexing import embedding_anew
from tasks.indexing.embedding_anew import embed_anew
from tasks.indexing.handed_in_documents import Unfinished, index_handed_in
from tasks.indexing.namespace_writer import create_namespace, delete_documents
from tests.integration.tasks.answers import ids
from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.models.used_embedder import use_embedder
from tests.support.pipelines.indexed_texts import index_texts
from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.pipeline import CORPUS
from tests.support.pipelines.pipeline_files import LOCAL, branch, declared
from tests.support.servers.elasticsearch_server import address, corner
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.weaviate_server import own_collection
from tests.support.stores.two_engines import store_and_branch

ENCODERS = '[encoders.small]\nmodel = "any"\n[encoders.third]\nmodel = "any"\n'
SECOND = branch("vector_small", "small", kind="vector", more='encoder = "small"')
QUESTION = "who pays for the repairs of a flat?"
OPTIONS: dict[str, Any] = {"include": ["ids", "metadata", "explanation"], "cache": "bypass", "top_k": 5}


class Small(HashingEmbedder):
    fingerprint = "hashing/2"
    comparable = ("hashing/2",)


EMBEDDERS = {"vector": HashingEmbedder(dimension=1_024), "vector_small": Small(dimension=384)}


def with_embedders(pipeline: OneProcess) -> OneProcess:
    use_embedder(pipeline.resources, EMBEDDERS["vector"])
    use_embedder(pipeline.resources, EMBEDDERS["vector_small"], "small")
    return pipeline


@pytest.fixture(scope="module", params=["embedded", "elasticsearch", "weaviate"])
def here(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneProcess]:
    file = tmp_path_factory.mktemp("encoders") / "pipeline.toml"
    with ExitStack() as stack:
        options: dict[str, Any] = {}
        if request.param == "elasticsearch":
            options = {"url": address(), "prefix": stack.enter_context(corner()), "vectors": True}
        elif request.param == "weaviate":
            endpoint = stack.enter_context(own_collection())
            options = {
                "url": endpoint.url,
                "grpc_port": endpoint.grpc_port,
                "collection": endpoint.collection,
            }
        store = store_and_branch("local", request.param, options, "vector", "dense")
        file.write_text(store + SECOND + branch("bm25") + ENCODERS)
        server = stack.enter_context(RedisServer())
        pipeline = stack.enter_context(OneProcess(server, pipeline_file=file))
        yield with_embedders(pipeline)
        pipeline.resources.writing_store.close()


def index(here: OneProcess, namespace: str, **more: str) -> None:
    texts = {name: text for name, (_, text) in CORPUS.items()} | more
    index_texts(here.resources, namespace, {name: (name, text) for name, text in texts.items()})


def cosines(answer: Answer) -> dict[str, dict[str, float | None]]:
    """By branch of vectors, the score of each hit."""
    return {
        name: {hit.document_id: hit.branches[name].score for hit in answer.hits if name in hit.found_by}
        for name in EMBEDDERS
    }


def expected(question: str, **more: str) -> dict[str, dict[str, float]]:
    """By branch of vectors, the cosine of each document, as its encoder gives it alone."""
    texts = {name: text for name, (_, text) in CORPUS.items()} | more
    # A passage is embedded below its document's title.
    lines = [f"{name}\n{text}" for name, text in texts.items()]
    return {
        name: dict(
            zip(
                texts,
                (embedder.embed_passages(lines) @ embedder.embed_questions([question])[0]).tolist(),
                strict=True,
            )
        )
        for name, embedder in EMBEDDERS.items()
    }


def assert_same(measured: dict[str, dict[str, float | None]], wanted: dict[str, dict[str, float]]) -> None:
    for name in EMBEDDERS:
        assert measured[name] == pytest.approx(wanted[name], abs=1e-4)


def test_each_branch_of_vectors_finds_by_the_cosines_of_its_own_encoder(here: OneProcess) -> None:
    index(here, "both")
    answer = here.ask(QUESTION, namespace="both", **OPTIONS)
    assert answer.status == "complete"
    assert set(answer.hits[0].found_by) == {"bm25", "vector", "vector_small"}
    assert_same(cosines(answer), expected(QUESTION))


def test_documents_that_come_change_or_go_do_so_for_both_encoders(here: OneProcess) -> None:
    index(here, "changing", cat="A cat sleeps.")
    changed = {"cat": "A cat eats fish."}
    index(here, "changing", **changed)
    assert delete_documents(here.resources, ["bread"], namespace="changing").deleted == 1
    answer = here.ask(QUESTION, namespace="changing", **OPTIONS)
    wanted = expected(QUESTION, **changed)
    for branch_cosines in wanted.values():
        del branch_cosines["bread"]
    assert_same(cosines(answer), wanted)
    assert "bread" not in ids(answer)


def test_documents_that_are_handed_in_are_embedded_by_both_encoders(here: OneProcess) -> None:
    rows = [{"id": name, "title": name, "text": text} for name, (_, text) in CORPUS.items()]
    index_handed_in(here.resources, Unfinished(), None, rows, namespace="handed-in", source="task")
    assert_same(cosines(here.ask(QUESTION, namespace="handed-in", **OPTIONS)), expected(QUESTION))


def test_a_rebuild_adds_the_second_encoder_to_a_namespace_that_is_searched_meanwhile(
    here: OneProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding_anew, "BATCH_DOCUMENTS", 2)
    with monkeypatch.context() as before:
        # As a pipeline file made the namespace that named no encoder.
        pipeline = here.resources.pipeline
        branches = tuple(each.model_copy(update={"encoder": None}) for each in pipeline.branches)
        before.setattr(here.resources, "pipeline", replace(pipeline, branches=branches))
        index(here, "older")
    index(here, "older", cat="A cat sleeps.")  # still with the encoders that it has
    lacking = here.ask(QUESTION, namespace="older", **OPTIONS)
    assert [(part.where, part.reason) for part in lacking.degraded] == [("search.vector_small", "bad_index")]
    assert "`chorale namespaces rebuild older` embeds them" in lacking.degraded[0].detail

    seen: list[set[str]] = []

    def search(_: object) -> None:
        answer = here.ask(QUESTION, namespace="older", **OPTIONS)
        seen.append({name for hit in answer.hits for name in hit.found_by})

    embed_anew(here.resources, "older", progress=search)
    # Six documents are embedded in three batches.
    assert seen == [{"bm25", "vector"}] * 3
    answer = here.ask(QUESTION, namespace="older", **OPTIONS, depth=6)
    assert answer.status == "complete"
    assert {name for hit in answer.hits for name in hit.found_by} == {"bm25", "vector", "vector_small"}
    index(here, "older", cat="A cat sleeps.")  # nothing to do, and nothing differs


@pytest.fixture(scope="module")
def embedded() -> Iterator[OneProcess]:
    """With a branch `hyde` of the second encoder, and completed scores."""
    store = store_and_branch("local", "embedded", {}, "vector", "dense")
    hyde = branch("hyde", "small", more='encoder = "small"')
    scores = '[configurations.scores]\nmethod = "dbsf"\ncomplete_scores = true\n'
    with OneProcess.with_file(store + SECOND + branch("bm25") + hyde + ENCODERS + scores) as pipeline:
        yield with_embedders(pipeline)


def test_scores_that_complete_a_list_are_those_of_the_branch_s_encoder(embedded: OneProcess) -> None:
    index(embedded, "docs")
    branches = ["vector", "vector_small", "bm25"]
    options = {**OPTIONS, "top_k": 1, "depth": 1, "branches": branches}
    (hit,) = embedded.ask(QUESTION, namespace="docs", **options).hits
    wanted = expected(QUESTION)
    for name in EMBEDDERS:
        assert hit.branches[name].score == pytest.approx(wanted[name][hit.document_id], abs=1e-4)


def test_passages_move_a_question_by_the_part_of_the_branch_s_encoder_alone(embedded: OneProcess) -> None:
    create_namespace(embedded.resources, "small", "small")
    scores = {}
    for namespace, encoders in (("small", {"small"}), ("both", {"default", "small"})):
        index(embedded, namespace)
        assert set(embedded.resources.writing_store.known(namespace).manifest.embedders) == encoders
        hits = embedded.ask(QUESTION, namespace=namespace, branches=["hyde"], **OPTIONS).hits
        scores[namespace] = {hit.document_id: hit.branches["hyde"].score for hit in hits}
    assert len(scores["both"]) == len(CORPUS)
    assert scores["both"] == pytest.approx(scores["small"], abs=1e-5)


def test_a_vector_of_two_encoders_has_the_unit_length_that_stores_want(embedded: OneProcess) -> None:
    index(embedded, "lengths")
    manifest = embedded.resources.writing_store.known("lengths").manifest
    (vector,) = embedded.resources.store("local").vectors("lengths", ["bread#0"]).values()
    parts = {"default": "hashing/1", "small": "hashing/2"}
    assert (manifest.dimension, dict(manifest.embedders)) == (1_408, parts)
    assert float(np.linalg.norm(vector)) == pytest.approx(1)


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        (
            SECOND.replace('"small"\n', '"smal"\n'),
            "branches.vector_small.encoder: no encoder 'smal'; there are: default, small, third",
        ),
        (
            branch("bm25", more='encoder = "small"'),
            "branches.bm25.encoder: a branch of kind 'bm25' embeds nothing",
        ),
    ],
)
def test_only_a_branch_that_embeds_names_a_declared_encoder(
    tmp_path: Path, table: str, complaint: str
) -> None:
    with pytest.raises(WrongDeclaration) as caught:
        declared(tmp_path, LOCAL + ENCODERS + table)
    assert complaint in str(caught.value)
