"""Writes docs/evidence/peers.md: hybrid retrieval of other libraries beside Chorale's, on one judged collection.

`OMP_NUM_THREADS=1 python -m docs.evidence.peers FOLDER`; FOLDER is in the BEIR layout, and the page says where it came from.  The libraries have an
environment of their own, which nothing else needs:

    python3 -m venv /tmp/peers
    /tmp/peers/bin/pip install --no-deps -r requirements/dev.txt -e client
    /tmp/peers/bin/pip install langchain-classic langchain-community rank-bm25 llama-index-retrievers-bm25 bm25s PyStemmer
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import bm25s
import psutil
import Stemmer

from cli.commands.evaluate import index_collection
from cli.terminal import stderr
from evaluation.judged.collection import Collection, read_collection
from evaluation.judged.metrics import ndcg, paired_gain
from models.documents import Matrix
from tests.support.pipelines.one_process import OneProcess
from tests.support.servers.redis_server import RedisServer

LIBRARIES = ("langchain-classic", "langchain-community", "haystack-ai", "llama-index-core", "bm25s")
DEPTH, TOP_K, ROUNDS, REFERENCE = 100, 10, 3, "Chorale `scores`"
PAGE = """# Beside other libraries

`python -m docs.evidence.peers FOLDER` writes this page.  The collection is {name}: {documents:,} documents, {passages:,} passages, {questions:,} judged
questions.  Every system gets Chorale's passages and vectors (all-MiniLM-L6-v2), which are computed once: no time here has a model in it.  Each takes
{depth} candidates of words and {depth} of vectors, and answers with the documents of the best {top_k}.  Settings that are not named are the libraries' own.

Chorale takes all steps of a request in this one process, with its ledger in a real Redis, whose time is counted.  With workers, a request costs more
([measurements](measurements.md)).  Its third source, `hyde` with feedback, needs no model either, and `rrf-two` is without it.  Its time to index
includes reading, splitting, duplicates and writing to disk; the others get split passages, and keep them in memory.

Times are processor time, by turns in {rounds} rounds.  Intervals are of the bootstrap over the questions, in the last column of paired differences.

| system | nDCG@10 (95 %) | ms a question | s to index | nDCG@10 less than `scores` by (95 %) |
|---|---|---|---|---|
{rows}

{versions}; load {load:.0f} on {cores} cores.
"""


class Passage(NamedTuple):
    id: str
    document: str
    text: str
    vector: list[float]


Vectors = Mapping[str, list[float]]  # by the question's text
Ask = Callable[[str], Iterable[str]]
"""A question -> ids of documents, best first; an id may come again."""
Systems = dict[str, Ask]


def spent_s(server: psutil.Process | None = None) -> float:
    """Processor time of this process, of its children that have ended, and of the Redis server."""
    return sum(os.times()[:4]) + (sum(server.cpu_times()[:2]) if server else 0.0)


def named(hits: Iterable[Any]) -> Iterator[str]:
    return (one.metadata["document"] for one in hits)


def chorale(one: OneProcess, collection: Collection) -> tuple[list[Passage], Vectors, Systems, float]:
    namespace, resources = collection.namespace, one.resources
    encoder, indexing = resources.encoder.embedder, resources.encoder.indexing
    embed, embedding_s = indexing.embed_passages, 0.0

    def timed(*arguments: Any, **options: Any) -> Matrix:
        nonlocal embedding_s
        began_s = spent_s()
        vectors = embed(*arguments, **options)
        embedding_s += spent_s() - began_s
        return vectors

    indexing.embed_passages = timed
    began_s = spent_s()
    index_collection(collection, resources, stderr())
    index_s = spent_s() - began_s - embedding_s

    store: Any = resources.store("local")
    entries = [entry for entry in store.entries(store.documents.index(namespace, 10.0)) if entry.passage_id]
    ids = [entry.passage_id for entry in entries]
    texts, vectors = (read(namespace, ids, timeout_s=600.0) for read in (store.texts, store.vectors))
    questions = list(collection.questions.values())
    whole = {id_: f"{texts[id_].title}\n{texts[id_].text}" for id_ in ids}
    passages = [Passage(id_, of, whole[id_], vectors[id_].tolist()) for of, id_, _ in entries]
    question_vectors = dict(zip(questions, encoder.embed_questions(questions).tolist(), strict=True))

    def ask(question: str, configuration: str) -> Iterator[str]:
        options = {"configuration": configuration, "depth": DEPTH, "top_k": TOP_K, "cache": "bypass"}
        answer = one.ask(question, namespace=namespace, include=["ids"], **options)
        assert answer.status == "complete", answer.degraded
        return (hit.document_id for hit in answer.hits)

    systems = {f"Chorale `{name}`": partial(ask, configuration=name) for name in ("rrf", "scores", "rrf-two")}
    return passages, question_vectors, systems, index_s


def bm25s_alone(passages: Sequence[Passage], question_vectors: Vectors) -> Systems:
    def tokens(texts: Sequence[str]) -> Any:
        return bm25s.tokenize(texts, stopwords="en", stemmer=Stemmer.Stemmer("english"), show_progress=False)

    retriever = bm25s.BM25()
    retriever.index(tokens([one.text for one in passages]), show_progress=False)

    def ask(question: str) -> Iterator[str]:
        places, _ = retriever.retrieve(tokens([question]), k=DEPTH, show_progress=False)
        return (passages[place].document for place in places[0])

    return {"bm25s, words alone": ask}


def langchain(passages: Sequence[Passage], question_vectors: Vectors) -> Systems:
    from langchain_classic.retrievers import EnsembleRetriever
    from langchain_community.retrievers import BM25Retriever
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import InMemoryVectorStore

    class QuestionVectors(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [one.vector for one in passages]

        def embed_query(self, text: str) -> list[float]:
            return question_vectors[text]

    texts, names = [one.text for one in passages], [{"document": one.document} for one in passages]
    vectors = InMemoryVectorStore.from_texts(texts, QuestionVectors(), names).as_retriever(
        search_kwargs={"k": DEPTH}
    )
    words = BM25Retriever.from_texts(texts, names, k=DEPTH)
    both = EnsembleRetriever(retrievers=[words, vectors], weights=[0.5, 0.5])
    return {"LangChain `EnsembleRetriever`": lambda question: named(both.invoke(question))}


def haystack(passages: Sequence[Passage], question_vectors: Vectors) -> Systems:
    from haystack import Document, Pipeline
    from haystack.components.joiners import DocumentJoiner
    from haystack.components.retrievers import InMemoryBM25Retriever, InMemoryEmbeddingRetriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    store = InMemoryDocumentStore()
    documents = [
        Document(id=id_, content=text, meta={"document": of}, embedding=vector)
        for id_, of, text, vector in passages
    ]
    store.write_documents(documents)

    def made(mode: str) -> Ask:
        pipeline = Pipeline()
        pipeline.add_component("words", InMemoryBM25Retriever(store, top_k=DEPTH))
        pipeline.add_component("vectors", InMemoryEmbeddingRetriever(store, top_k=DEPTH))
        pipeline.add_component("joiner", DocumentJoiner(join_mode=mode))
        pipeline.connect("words", "joiner")
        pipeline.connect("vectors", "joiner")

        def ask(question: str) -> Iterator[str]:
            inputs = {
                "words": {"query": question},
                "vectors": {"query_embedding": question_vectors[question]},
            }
            return (one.meta["document"] for one in pipeline.run(inputs)["joiner"]["documents"])

        return ask

    modes = ("reciprocal_rank_fusion", "distribution_based_rank_fusion")
    return {f"Haystack `DocumentJoiner`, `{mode}`": made(mode) for mode in modes}


def llama_index(passages: Sequence[Passage], question_vectors: Vectors) -> Systems:
    from llama_index.core import MockEmbedding, QueryBundle, VectorStoreIndex
    from llama_index.core.llms import MockLLM
    from llama_index.core.retrievers import QueryFusionRetriever
    from llama_index.core.schema import TextNode
    from llama_index.retrievers.bm25 import BM25Retriever

    unread = {"excluded_embed_metadata_keys": ["document"], "excluded_llm_metadata_keys": ["document"]}
    nodes = [
        TextNode(
            id_=one.id, text=one.text, metadata={"document": one.document}, embedding=one.vector, **unread
        )
        for one in passages
    ]
    unused = MockEmbedding(len(passages[0].vector))  # every query brings its vector
    vectors = VectorStoreIndex(nodes, embed_model=unused).as_retriever(similarity_top_k=DEPTH)
    stemmer = Stemmer.Stemmer("english")
    words = BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=DEPTH, stemmer=stemmer, language="en")

    def made(mode: str) -> Ask:
        own = {"llm": MockLLM(), "mode": mode, "num_queries": 1, "use_async": False}
        both = QueryFusionRetriever([words, vectors], similarity_top_k=DEPTH, **own)
        return lambda text: named(both.retrieve(QueryBundle(text, embedding=question_vectors[text])))

    modes = ("reciprocal_rerank", "relative_score")
    return {f"LlamaIndex `QueryFusionRetriever`, `{mode}`": made(mode) for mode in modes}


def rows(
    systems: Systems, index_s: Mapping[str, float], judged: Collection, server: psutil.Process
) -> Iterator[str]:
    def first(name: str, text: str) -> list[str]:
        return list(dict.fromkeys(systems[name](text)))[:TOP_K]

    texts, names = list(judged.questions.values()), list(systems)
    grades = [judged.judgements[id_] for id_ in judged.questions]
    values = {name: list(map(ndcg, map(partial(first, name), texts), grades)) for name in names}  # warms them
    busy_s = Counter[str]()
    for number in range(ROUNDS):
        turn = number * len(names) // ROUNDS
        for name in [*names[turn:], *names[:turn]]:
            began_s = spent_s(server)
            for text in texts[number::ROUNDS]:
                first(name, text)
            busy_s[name] += spent_s(server) - began_s
    for name in names:
        own = paired_gain(values[name], [0.0] * len(texts))
        less = paired_gain(values[REFERENCE], values[name])
        yield (
            f"| {name} | {own.mean:.3f} [{own.low:.3f}, {own.high:.3f}] | {busy_s[name] * 1000 / len(texts):.1f} | "
            f"{index_s[name]:.1f} | {less.mean:+.3f} [{less.low:+.3f}, {less.high:+.3f}] |"
        )


if __name__ == "__main__":
    collection = read_collection(Path(sys.argv[1]), "test")
    with RedisServer() as server, OneProcess(server) as one:
        passages, question_vectors, systems, seconds = chorale(one, collection)
        index_s = dict.fromkeys(systems, seconds)
        for make in (bm25s_alone, langchain, haystack, llama_index):
            make(passages[: 2 * DEPTH], question_vectors)  # imports the library
            began_s = spent_s()
            made = make(passages, question_vectors)
            systems, index_s = systems | made, index_s | dict.fromkeys(made, spent_s() - began_s)
        redis = psutil.Process(one.redis.info("server")["process_id"])
        table = "\n".join(rows(systems, index_s, collection, redis))
    documents, questions = len({one.document for one in passages}), len(collection.questions)
    page = PAGE.format(
        name=collection.name, documents=documents, passages=len(passages), questions=questions, depth=DEPTH, top_k=TOP_K, rounds=ROUNDS,
        rows=table, versions=", ".join(f"{name} {version(name)}" for name in LIBRARIES), load=os.getloadavg()[0], cores=os.cpu_count(),
    )  # fmt: skip
    Path(__file__).with_suffix(".md").write_text(page, encoding="utf-8")
