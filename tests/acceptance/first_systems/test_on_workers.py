"""What the first systems say of sources side by side, of deadlines, of time and of results, on real workers: one for each source."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from math import inf
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import pytest
from chorale_client import Answer

from config.pipeline_reader import DEFAULT_FILE
from ingest.raw_documents import RawDocument
from tasks.indexing.indexing_run import SourceDocuments
from tasks.indexing.namespace_writer import index_corpus
from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.pipelines.pipeline_files import LOCAL, branch
from tests.support.servers.chat_server import ChatServer
from tests.support.servers.model_server import embeds
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.search_server import Answer as Reply
from tests.support.servers.search_server import Handler, SearchServer

pytestmark = pytest.mark.slow

SOURCES = ("graph", "wiki", "notes", "mail")
STORE = (
    '[stores.{0}]\nkind = "http"\noptions = {{ url = "{1}/{0}?q={{question}}", hits = "hits", id = "id" }}\n'
)
SHIPPED = ("bm25", "vector", "hyde")
QUESTION = "who pays for repairs?"
SLEEP_S = 0.5


@pytest.fixture(scope="module")
def engines() -> Iterator[SearchServer]:
    with SearchServer() as server:
        yield server


@pytest.fixture(scope="module")
def workers(engines: SearchServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPipeline]:
    """The shipped pipeline with four engines over HTTP."""
    stores = "".join(STORE.format(name, engines.origin) for name in SOURCES)
    branches = "".join(branch(name, kind="http", store=name) for name in SOURCES)
    file = tmp_path_factory.mktemp("workers") / "pipeline.toml"
    file.write_text(DEFAULT_FILE.read_text(encoding="utf-8") + "\n" + stores + branches, encoding="utf-8")
    alone = [f"chorale.{name}" for name in ("bm25", *SOURCES)]
    with (
        RedisServer() as server,
        RunningPipeline(server, alone=alone, sweeper=True, pipeline_file=file) as running,
    ):
        running.index()
        yield running


def ask(workers: RunningPipeline, *branches: str, question: str = QUESTION, **options: Any) -> Answer:
    usual = {"branches": list(branches), "cache": "bypass", "timeout_s": 30}
    return workers.client().retrieve(question, **{**usual, **options})


def index(workers: RunningPipeline, texts: dict[str, str], namespace: str) -> None:
    documents = [RawDocument(name, "tests", title="", text=text) for name, text in texts.items()]
    index_corpus(workers.resources, SourceDocuments(documents, "tests"), namespace=namespace)


def after(wait: Any) -> Reply:
    """An engine's answer, given after `wait` returns."""

    def answer(handler: Handler) -> None:
        wait()
        name = handler.path.strip("/").partition("?")[0]
        handler.send(200, json.dumps({"hits": [{"id": f"{name}-1"}]}).encode())

    return answer


def test_each_source_answers_only_once_all_four_have_been_asked(
    workers: RunningPipeline, engines: SearchServer
) -> None:
    """Sources that are asked one after the other would never answer."""
    engines.answer = after(threading.Barrier(len(SOURCES), timeout=25).wait)
    answer = ask(workers, *SOURCES)
    assert (answer.status, answer.degraded) == ("complete", ())
    assert {name for hit in answer.hits for name in hit.found_by} == set(SOURCES)


@pytest.mark.parametrize(("number", "least"), [(2, 1.6), (4, 1.9)])
def test_several_sources_at_once_are_faster_than_one_after_the_other(
    workers: RunningPipeline, engines: SearchServer, number: int, least: float
) -> None:
    """Each takes half a second.  The best of five requests counts, as other work of the machine slows some."""
    engines.answer = after(lambda: time.sleep(SLEEP_S))
    answers = [ask(workers, *SOURCES[:number]) for _ in range(5)]
    assert {answer.status for answer in answers} == {"complete"}
    ratio = number * SLEEP_S * 1_000 / min(answer.took_ms for answer in answers)
    assert ratio >= least


def test_the_other_branches_answer_by_the_deadline_while_the_worker_of_one_is_stopped(
    workers: RunningPipeline,
) -> None:
    workers.pause("chorale.bm25")
    try:
        answer = ask(workers, *SHIPPED, timeout_s=5)
    finally:
        workers.resume("chorale.bm25")
    assert (answer.status, [part.where for part in answer.degraded]) == ("degraded", ["search.bm25"])
    assert {name for hit in answer.hits for name in hit.found_by} == {"vector", "hyde"}
    assert answer.took_ms <= 5_000


@pytest.mark.long  # milliseconds depend on what else the machine does
def test_95_of_100_answers_come_within_500_ms_and_half_of_the_searches_within_20(
    workers: RunningPipeline,
) -> None:
    """No question comes twice.  The best of at most three rounds counts, as other work of the machine slows some."""
    p95 = searched = inf
    for turn in range(3):
        questions = [f"{QUESTION} {turn}-{place}" for place in range(100)]
        answers = [ask(workers, *SHIPPED, question=question) for question in questions]
        p95 = min(p95, quantiles([answer.took_ms for answer in answers], n=20)[-1])
        stages = [line for one in answers for line in one.stages if line.stage.startswith("search.")]
        searched = min(searched, median(line.ms for line in stages))
        if p95 < 500 and searched < 20:
            break
    assert p95 < 500
    assert searched < 20


def test_a_question_that_a_document_answers_has_more_confidence_than_one_that_none_answers(
    workers: RunningPipeline,
) -> None:
    answerable, unanswerable = (
        ask(workers, *SHIPPED, question=question, configuration="late-fusion").questions[0].confidence
        for question in ("When must a tenant give notice?", "Which planet has the most moons?")
    )
    assert answerable is not None
    assert unanswerable is not None
    assert unanswerable < 0.2 < 0.8 < answerable


def test_a_model_of_the_e5_family_is_sent_its_prompts(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    with ChatServer(embeds(HashingEmbedder(dimension=16))) as encoder, RedisServer() as redis:
        declared = f'[encoders.default]\nkind = "endpoint"\nurl = "{encoder.url}"\nmodel = "intfloat/multilingual-e5-large"\n'
        file.write_text(LOCAL + declared + branch("vector", "dense"), encoding="utf-8")
        with RunningPipeline(redis, pipeline_file=file) as pipeline:
            index(pipeline, {"hens": "A hen lays an egg on most days."}, "farm")
            answer = pipeline.client().retrieve("how often does a hen lay?", namespace="farm", timeout_s=30)
        sent = [text for body in encoder.requests for text in body["input"]]
    assert [hit.document_id for hit in answer.hits] == ["hens"]
    assert {"passage: A hen lays an egg on most days.", "query: how often does a hen lay?"} <= set(sent)
    assert {text.partition(": ")[0] for text in sent} == {"passage", "query"}
