"""Two namespaces are searched at once: no answer of one has a word of the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from chorale_client import Answer
from pydantic_core import to_json

from ingest.raw_documents import RawDocument
from records.audit import queries
from records.database import database_url, open_database
from tasks.indexing.indexing_run import SourceDocuments
from tasks.indexing.namespace_writer import index_corpus
from tests.support.ledger.audit_rows import branch_result_of, count
from tests.support.pipelines.kinds import kinds_with
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.pipelines.pipeline_files import branch
from tests.support.servers.redis_server import RedisServer
from tests.support.stores.two_engines import shared_engines, texts_and_vectors
from tests.support.waiting import until

REQUESTS = 400
pytestmark = [pytest.mark.slow, pytest.mark.limit_s(320)]

MARKERS = {"one": "amaranth", "two": "basalt"}
"""The word that is in everything of a namespace, and in no question."""
OTHER = {"one": "basalt", "two": "amaranth"}
ANIMALS = ("badger", "camel", "dolphin", "eagle", "ferret", "gazelle", "heron", "ibex", "jackal", "lemur")
ALIKE = 4
"""Equal requests of a namespace at once: one leads, the others follow it or find its answer in the cache."""
NEW = 0.6
"""The share of requests whose question is new; the others find an answer in the cache."""
BESIDE = """
[configurations.rrf]
method = "rrf"
branches = ["bm25", "vector"]
[configurations.faulty]
method = "rrf"
branches = ["bm25", "quotes"]
"""
QUOTES = """
from models.errors import StoreUnavailable
from tasks.branches.searches import search_bm25
from tests.support.pipelines.kinds import declare

def quotes(part):
    best = search_bm25(part)[0].hits[0]
    text = part.store.texts(part.request.namespace, [best.passage_id])[best.passage_id].text
    raise StoreUnavailable(f"it fell silent after: {text}")

declare(quotes=quotes)
"""
"""A kind of branch whose error quotes what it found, as errors of servers do."""
QUEUES = ["chorale.retrieve", "chorale.bm25", "chorale.vector", "chorale.fusion"]


@dataclass(frozen=True, slots=True)
class Call:
    namespace: str
    text: str
    options: dict[str, Any]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPipeline]:
    file = tmp_path_factory.mktemp("namespaces") / "pipeline.toml"
    quotes = branch("quotes", "faulty", store="texts", more='queue = "chorale.bm25"')
    with shared_engines() as (texts, vectors), RedisServer() as server:
        file.write_text(texts_and_vectors(texts, vectors) + quotes + BESIDE)
        running = RunningPipeline(
            server,
            pipeline_file=file,
            queues=QUEUES,
            sweeper=True,
            environment={"CHORALE_BREAKER_FAILURES": "0", "CHORALE_LOG_LEVEL": "ERROR"},
            kinds=kinds_with("quotes"),
            preload=QUOTES,
        )
        for namespace, marker in MARKERS.items():
            pages = SourceDocuments(documents(marker), "pages")
            report = index_corpus(running.resources, pages, namespace=namespace)
            assert (report.added, report.unwritten) == (2 * len(ANIMALS), {})
        with running:
            yield running
            running.resources.writing_store.close()


def documents(marker: str) -> list[RawDocument]:
    """Each animal twice: under an id that both namespaces have, and under one of the namespace's own."""
    return [
        RawDocument(
            document_id=document_id,
            source="pages",
            title=f"{marker} {animal}",
            text=f"The {animal} of page {number} is fed by the {marker} keeper at noon. {marker} {extra}",
            metadata={"keeper": f"{marker} keeper", "place": number},
        )
        for number, animal in enumerate(ANIMALS)
        for document_id, extra in ((f"page-{number}", "bread"), (f"{marker}-{number}", "water"))
    ]


def schedule(count: int) -> Iterator[Call]:
    """Equal requests of both namespaces stand together; of 25 questions one is planned wrongly and one finds an error."""
    groups = count // (ALIKE * len(MARKERS))
    includes = (["ids", "metadata", "snippets"], ["metadata", "texts", "explanation"])
    for group in range(groups):
        number = group % max(1, round(groups * NEW))
        options: dict[str, Any] = {"include": includes[number % 2]}
        if number % 25 == 7:
            options["branches"] = ["bm25", "nowhere"]
        if number % 25 == 13:
            options["configuration"] = "faulty"
        text = f"Who feeds the {ANIMALS[number % len(ANIMALS)]} at noon, for the {number}. time?"
        for _ in range(ALIKE):
            for namespace in MARKERS:
                yield Call(namespace, text, options)


@pytest.fixture(scope="module")
def answered(running: RunningPipeline) -> list[tuple[Call, Answer]]:
    client = running.client()

    def ask(call: Call) -> tuple[Call, Answer]:
        return call, client.retrieve(call.text, namespace=call.namespace, timeout_s=20, **call.options)

    with ThreadPoolExecutor(16) as pool:
        return list(pool.map(ask, schedule(REQUESTS)))


def test_no_answer_and_no_error_has_a_word_of_the_other_namespace(
    answered: list[tuple[Call, Answer]],
) -> None:
    assert len(answered) == REQUESTS // 8 * 8
    statuses = Counter(answer.status for _, answer in answered)
    quoted = 0
    for call, answer in answered:
        assert OTHER[call.namespace] not in answer.model_dump_json().lower(), call
        for hit in answer.hits:
            text = hit.text or (hit.snippet.text if hit.snippet else "")
            assert MARKERS[call.namespace] in (hit.title or "")
            assert MARKERS[call.namespace] in text, call
        quotes = [line.detail for line in answer.degraded if line.where == "search.quotes"]
        quoted += len(quotes)
        assert all(MARKERS[call.namespace] in detail for detail in quotes)
    # All but 2 of 25 are whole, in proportion.
    assert statuses["complete"] > 0.85 * REQUESTS
    assert min(quoted, statuses["failed"]) > 0
    assert statuses.keys() <= {"complete", "degraded", "failed"}


def test_the_audit_trail_of_a_namespace_has_no_word_of_the_other(
    running: RunningPipeline, answered: list[tuple[Call, Answer]]
) -> None:
    ids = {answer.request_id for _, answer in answered}
    engine = open_database(database_url(running.resources.settings.audit_database_url))
    until(lambda: count(engine) >= len(ids), 60)
    lines = queries.last(engine, 2 * REQUESTS)
    assert ids <= {line.request_id for line in lines}
    ended_by: Counter[tuple[str, str]] = Counter()
    for line in lines:
        row = queries.show(engine, line.request_id)
        assert row is not None
        branch_results = [str(branch_result_of(part)) for part in row.branches]
        text = (
            to_json([queries.listed(line), row.to_dict(), branch_results], inf_nan_mode="null")
            .decode()
            .lower()
        )
        assert OTHER[line.namespace] not in text, line.request_id
        ended_by[line.namespace, row.ended_by] += 1
    engine.dispose()
    # What is claimed was there: searched, followed and taken from the cache, in both.
    for namespace in MARKERS:
        assert {"fusion", "leader", "cache"} <= {by for name, by in ended_by if name == namespace}, ended_by


def test_the_cache_and_what_else_is_left_in_redis_names_one_namespace_each(
    running: RunningPipeline, answered: list[tuple[Call, Answer]]
) -> None:
    values = 0
    for key in running.redis.scan_iter(count=1_000, _type="string"):
        text = (running.redis.get(key) or b"").lower()
        markers = [marker for marker in MARKERS.values() if marker.encode() in text]
        assert len(markers) < 2, key
        values += len(markers)
    # Every answer that has hits, by its id, and what is cached.
    assert values > 0.9 * len(answered)
