"""The farm advisory's own index, texts and encoder as they are: Pinecone, MongoDB, and Pinecone's `/embed`.

The store is the one that the page about sources declares.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from chorale_client import Answer

from search.kinds import open_http_source
from search.protocol import Search
from tests.support.code_blocks import code_blocks
from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.pipelines.one_process import OneProcess
from tests.support.servers.mongodb_server import MongodbServer
from tests.support.servers.pinecone_server import PineconeServer
from tests.support.servers.redis_server import RedisServer

KEY = "pc-sesame-0815"
QUESTION = "how much water does a cow drink?"
CHUNKS = {
    "cows": ("animals", "a cow drinks much water on a day in summer"),
    "hens": ("animals", "a hen lays an egg on most days"),
    "wheat": ("crops", "wheat needs nitrogen and water in spring"),
    "vat": ("tax", "a farm pays tax on milk and eggs"),
    "torn": ("animals", "how much water does a calf drink?"),
}
"""Domain and text of each chunk; MongoDB has lost the text of `torn`."""
LOST = "torn"
EMBEDDER = HashingEmbedder(dimension=64, max_pieces=512)


@pytest.fixture(scope="module")
def pinecone() -> Iterator[PineconeServer]:
    with PineconeServer(EMBEDDER, KEY) as server:
        server.records = {
            "farm": {name: ({"domain": domain}, text) for name, (domain, text) in CHUNKS.items()},
            "forestry": {"cows": ({"domain": "forest"}, "cows of the forest")},
        }
        yield server


@pytest.fixture(scope="module")
def mongodb() -> Iterator[MongodbServer]:
    with MongodbServer() as server:
        texts = {name: text for name, (_, text) in CHUNKS.items() if name != LOST}
        server.insert("rag_chunks", [{"_id": name, "content": text} for name, text in texts.items()])
        yield server


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="module")
def farm(
    redis: RedisServer,
    pinecone: PineconeServer,
    mongodb: MongodbServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[OneProcess]:
    [block] = [block for block in code_blocks("toml") if "[stores.farm.options.texts]" in block.code]
    text = block.code.replace("timeout_s = 1 ", "timeout_s = 9 ")
    for public in ("https://farm-1a2b3c4.svc.example.pinecone.io", "https://api.pinecone.io"):
        assert public in text
        text = text.replace(public, pinecone.origin)
    file = tmp_path_factory.mktemp("farm") / "pipeline.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PINECONE_API_KEY", KEY)
        environment.setenv("FARM_MONGODB_URL", mongodb.url())
        with OneProcess(redis, pipeline_file=file) as pipeline:
            yield pipeline
            pipeline.resources.store("farm").close()  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def _no_requests(pinecone: PineconeServer) -> None:
    pinecone.requests.clear()


def retrieve(
    here: OneProcess,
    query: str = QUESTION,
    domains: list[str] | None = None,
    confidence_threshold: float | None = None,
    **options: Any,
) -> Answer:
    """The service's call, as a request."""
    if domains is not None:
        options["filters"] = {"domain": domains}
    if confidence_threshold is not None:
        options["thresholds"] = {"min_branch_score": {"farm": confidence_threshold}}
    include = ["ids", "metadata", "texts", "explanation"]
    return here.ask(query, **{"namespace": "farm", "include": include, "cache": "bypass", **options})


def ids(answer: Answer) -> list[str]:
    return [hit.document_id.removeprefix("farm/") for hit in answer.hits]


def cosine(name: str, query: str = QUESTION) -> float:
    question, passage = EMBEDDER.embed_questions([query, CHUNKS[name][1]])
    return float(question @ passage)


BEST_FIRST = sorted(CHUNKS.keys() - {LOST}, key=cosine, reverse=True)


def test_a_query_is_embedded_searched_its_texts_fetched_and_a_chunk_without_one_counted(
    farm: OneProcess, pinecone: PineconeServer
) -> None:
    assert cosine(LOST) > cosine("cows"), "it would be the best match"
    answer = retrieve(farm)
    assert (answer.status, ids(answer)) == ("complete", BEST_FIRST)
    said = "document_missing: farm: 1 of 5 hits have no text in the collection, and are left out"
    assert said in answer.warnings
    best = answer.hits[0]
    assert (best.text, best.metadata) == (CHUNKS["cows"][1], {"domain": "animals"})
    assert best.branches["farm"].score == pytest.approx(cosine("cows"), abs=1e-5)
    # The server puts the prompts of the model before the text itself.
    assert pinecone.bodies_at("/embed") == [
        {
            "model": "multilingual-e5-large",
            "inputs": [{"text": QUESTION}],
            "parameters": {"input_type": "query", "truncate": "END"},
        }
    ]
    [sent] = pinecone.bodies_at("/query")
    vector = sent.pop("vector")
    assert vector == pytest.approx(EMBEDDER.embed_questions([QUESTION])[0].tolist(), abs=1e-6)
    assert sent == {"topK": 50, "namespace": "farm", "filter": {}, "includeMetadata": True}


def test_only_chunks_of_the_domains_are_found_and_pinecone_filters_before_it_ranks(
    farm: OneProcess, pinecone: PineconeServer
) -> None:
    answer = retrieve(farm, domains=["crops", "tax"], top_k=1, depth=2)
    assert ids(answer) == [name for name in BEST_FIRST if CHUNKS[name][0] in ("crops", "tax")][:1]
    [sent] = pinecone.bodies_at("/query")
    assert (sent["filter"], sent["topK"]) == ({"domain": {"$in": ["crops", "tax"]}}, 2)
    assert answer.warnings == ()
    assert set(ids(retrieve(farm, domains=[]))) == set(BEST_FIRST), "no domains are all of them"


def test_a_namespace_is_searched_alone_and_matches_below_the_threshold_are_removed(farm: OneProcess) -> None:
    assert ids(retrieve(farm, namespace="forestry")) == ["cows"]
    assert retrieve(farm, namespace="nowhere").hits == ()
    scores = [cosine(name) for name in BEST_FIRST]
    answer = retrieve(farm, confidence_threshold=(scores[1] + scores[2]) / 2)
    assert ids(answer) == BEST_FIRST[:2]
    assert answer.questions[0].removed == {"min_branch_score": len(BEST_FIRST) - 2}


def test_an_index_that_embeds_by_itself_gets_the_question_and_its_hits_have_their_texts(
    pinecone: PineconeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PINECONE_API_KEY", KEY)
    query = {"inputs": {"text": "{question}"}, "top_k": "{depth}", "filter": "{filter}"}
    options = {
        "url": f"{pinecone.origin}/records/namespaces/{{namespace}}/search",
        "method": "POST",
        "body": {"query": query},
        "filter_dialect": "pinecone",
        "api_key_env": "PINECONE_API_KEY",
        "key_header": "Api-Key",
        "key_prefix": "",
        "hits": "result.hits",
        "id": "_id",
        "score": "_score",
        "text": "fields.chunk_text",
    }
    search = Search(2, {"domain": ["crops", "tax"]}, timeout_s=20.0)
    with closing(open_http_source("farm", options)) as source:
        [ranking] = source.search_text("farm", [QUESTION], search)
    assert [hit.document_id for hit in ranking.hits] == [
        f"farm/{name}" for name in BEST_FIRST if CHUNKS[name][0] in ("crops", "tax")
    ]
    assert ranking.texts["farm/wheat#farm"].text == CHUNKS["wheat"][1]
    sent = {"inputs": {"text": QUESTION}, "top_k": 2, "filter": {"domain": {"$in": ["crops", "tax"]}}}
    assert [request.body for request in pinecone.requests] == [{"query": sent}]
