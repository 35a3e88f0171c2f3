"""SciFact through Elasticsearch, Weaviate and feedback, with one server killed or held still in the middle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from chorale_client import Answer

from evaluation.collection import Collection, read_collection
from ingest.read import read_documents
from tasks.indexing.indexing_run import SourceDocuments
from tasks.indexing.namespace_writer import index_corpus
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.own_elasticsearch import ElasticsearchServer
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.weaviate_server import WeaviateServer
from tests.support.stores.judged_collections import judged_collection
from tests.support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.limit_s(300)]

QUESTIONS = 50
DOCUMENTS = 300
"""As many as are embedded in a quarter of a minute: those that were judged for the questions, and the first others."""
DISTURBED, UNDISTURBED = 20, 5
"""How many are asked while a server goes, and after how many of them it does."""
PATIENT_S = 30.0
TIMEOUT_S = 3.0
"""Of what is asked while a server is away."""
AT_ONCE = 4
KEY = "the-administrators-key"
KEY_VARIABLE = "CHORALE_TEST_WEAVIATE_KEY"
PIPELINE = """
[stores.texts]
kind = "elasticsearch"
options = {{ url = "{elasticsearch}" }}
[stores.vectors]
kind = "weaviate"
options = {{ url = "{weaviate}", grpc_port = {grpc_port}, api_key_env = "{key_variable}" }}
[branches.bm25]
kind = "bm25"
group = "lexical"
store = "texts"
weight = 0.3
[branches.vector]
kind = "vector"
group = "dense"
store = "vectors"
weight = 0.4
[branches.hyde]
kind = "hyde"
group = "dense"
store = "vectors"
weight = 0.3
options = {{ generator = "feedback", feedback_store = "texts" }}
"""
QUEUES = ["chorale.retrieve", "chorale.bm25", "chorale.vector", "chorale.hyde", "chorale.fusion"]
AWAY = {"unavailable", "timeout", "not_started", "late", "breaker_open"}
"""What a branch says whose server does not answer: itself, or after some failures the breaker, or the clock."""


@dataclass(frozen=True, slots=True)
class Clustered:
    running: RunningPipeline
    elasticsearch: ElasticsearchServer
    weaviate: WeaviateServer
    collection: Collection

    def ask(self, text: str, branches: Sequence[str] | None = None, timeout_s: float = PATIENT_S) -> Answer:
        return self.running.client().retrieve(
            text,
            namespace=self.collection.namespace,
            branches=branches,
            cache="bypass",
            include=["metadata", "texts"],
            timeout_s=timeout_s,
        )

    @property
    def texts(self) -> list[str]:
        return list(self.collection.questions.values())

    def ask_all(self, texts: Sequence[str]) -> list[Answer]:
        """Asks AT_ONCE questions at the same time."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(self.ask, texts))

    def ask_disturbed(self, texts: Sequence[str], disturb: Callable[[], None]) -> list[Answer]:
        """`disturb` is called when UNDISTURBED of them have been taken up."""

        def one(place: int) -> Answer:
            if place == UNDISTURBED:
                disturb()
            return self.ask(texts[place], timeout_s=TIMEOUT_S)

        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(one, range(len(texts))))

    def wait_whole(self) -> None:
        until(lambda: self.ask("is it whole again?", timeout_s=TIMEOUT_S).status == "complete", 60)


@pytest.fixture(scope="module")
def clustered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clustered]:
    folder = tmp_path_factory.mktemp("judged")
    collection = read_collection(judged_collection("scifact", folder), "test").limited(QUESTIONS)
    with ExitStack() as stack:
        elasticsearch = stack.enter_context(ElasticsearchServer())
        weaviate = stack.enter_context(WeaviateServer(key=KEY))
        stack.enter_context(pytest.MonkeyPatch.context()).setenv(KEY_VARIABLE, KEY)
        file = folder / "pipeline.toml"
        file.write_text(
            PIPELINE.format(
                elasticsearch=elasticsearch.url,
                weaviate=weaviate.endpoint().url,
                grpc_port=weaviate.grpc_port,
                key_variable=KEY_VARIABLE,
            )
        )
        server = stack.enter_context(RedisServer())
        running = RunningPipeline(
            server,
            pipeline_file=file,
            queues=QUEUES,
            sweeper=True,
            # Half the time; who is compared here was embedded alike.
            environment={"CHORALE_EMBEDDER_DOCUMENT_PRECISION": "int8"},
        )
        elasticsearch.wait_ready()
        index(running, collection, folder / "part.jsonl")
        stack.enter_context(running)
        yield Clustered(running, elasticsearch, weaviate, collection)
        running.resources.writing_store.close()


def index(running: RunningPipeline, collection: Collection, part: Path) -> None:
    """Into both stores: the judged documents of the questions and the first others, to DOCUMENTS."""
    judged = {document_id for grades in collection.judgements.values() for document_id in grades}
    lines = collection.corpus.read_text().splitlines()
    wanted = [line for line in lines if line.split('"')[3] in judged]
    others = [line for line in lines if line.split('"')[3] not in judged]
    part.write_text("\n".join(wanted + others[: DOCUMENTS - len(wanted)]))
    report = index_corpus(
        running.resources,
        SourceDocuments(read_documents([part], source=collection.name, ids="given"), collection.name),
        namespace=collection.namespace,
    )
    assert (report.added, report.unwritten, report.skipped) == (DOCUMENTS, {}, [])


def ids(answer: Answer) -> list[str]:
    return [hit.document_id for hit in answer.hits]


def is_in_time(answer: Answer) -> bool:
    """By the Redis clock, which `took_ms` is measured by."""
    return answer.took_ms <= (TIMEOUT_S + 1) * 1000


def missing_branches(answer: Answer) -> set[str]:
    """The branches that an answer is said to be without, each for a reason that fits a server that is away."""
    found = {one.where: one.reason for one in answer.degraded if one.where.startswith("search.")}
    assert set(found.values()) <= AWAY, answer.degraded
    return {where.removeprefix("search.") for where in found}


def has_texts(answer: Answer) -> bool:
    return all(hit.text for hit in answer.hits)


def has_no_time_for_texts(answer: Answer) -> bool:
    """All queues have one process here: what it waits for a store, later parts of other requests do not have.

    The texts are not asked for then, or in the last milliseconds, which the store does not keep.
    """
    said = {one.reason for one in answer.degraded if one.where == "fetch"}
    return bool(said & {"budget", "timeout"})


@pytest.fixture(scope="module")
def whole(clustered: Clustered) -> list[Answer]:
    """The answers to all questions while both stores are there."""
    return clustered.ask_all(clustered.texts)


def test_fifty_questions_find_what_was_judged_in_both_stores(
    clustered: Clustered, whole: list[Answer]
) -> None:
    assert {answer.status for answer in whole} == {"complete"}
    for answer in whole:
        assert {name for hit in answer.hits for name in hit.found_by} == {"bm25", "vector", "hyde"}
    assert all(hit.text for answer in whole for hit in answer.hits)
    grades = clustered.collection.judgements.values()
    found = sum(
        any(mine.get(name) for name in ids(answer)) for mine, answer in zip(grades, whole, strict=True)
    )
    # In the whole collection, which is 17 times as large, 86 of a hundred are among the first ten.
    assert found >= 0.8 * QUESTIONS


LOST = {
    "Weaviate is killed": ({"vector", "hyde"}, "bm25"),
    # Feedback asks Elasticsearch for its passages.
    "Elasticsearch is held still": ({"bm25", "hyde"}, "vector"),
}
"""The branches that go with a server, and the branch that is left."""


@pytest.mark.parametrize("what", LOST)
def test_without_one_server_the_branches_of_the_other_answer_and_the_missing_are_named(
    clustered: Clustered, whole: list[Answer], what: str
) -> None:
    lost, left = LOST[what]
    texts = clustered.texts[:DISTURBED]
    left_alone = [ids(clustered.ask(text, [left])) for text in texts]
    is_killed = what == "Weaviate is killed"
    try:
        answers = clustered.ask_disturbed(
            texts, clustered.weaviate.kill if is_killed else clustered.elasticsearch.pause
        )
    finally:
        if is_killed:
            clustered.weaviate.kill()
            clustered.weaviate.launch()
        else:
            clustered.elasticsearch.go_on()
    assert all(is_in_time(answer) for answer in answers)
    without = [missing_branches(answer) for answer in answers]
    # Those that were under way may have had either, or both.
    assert without[UNDISTURBED + AT_ONCE :] == [lost] * (DISTURBED - UNDISTURBED - AT_ONCE)
    for answer, missing, alone in zip(answers, without, left_alone, strict=True):
        assert answer.status == ("degraded" if missing or answer.degraded else "complete")
        if missing == lost:
            assert ids(answer) == alone
            assert has_texts(answer) or has_no_time_for_texts(answer)
    assert any(has_texts(answer) for answer in answers[UNDISTURBED + AT_ONCE :])
    clustered.wait_whole()
    again = clustered.ask_all(texts)
    assert {answer.status for answer in again} == {"complete"}
    assert [ids(answer) for answer in again] == [ids(answer) for answer in whole[:DISTURBED]]


def test_with_both_away_a_request_fails_in_time_and_names_all_three(clustered: Clustered) -> None:
    clustered.elasticsearch.pause()
    clustered.weaviate.pause()
    try:
        answer = clustered.ask("Who answers?", timeout_s=TIMEOUT_S)
    finally:
        clustered.weaviate.go_on()
        clustered.elasticsearch.go_on()
    assert is_in_time(answer)
    assert (answer.status, answer.hits) == ("failed", ())
    assert missing_branches(answer) == {"bm25", "vector", "hyde"}
    clustered.wait_whole()
