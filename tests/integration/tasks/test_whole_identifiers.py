"""Which documents have the identifiers of a question whole: a running branch reads it from their texts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tasks.branches.whole_identifiers import MOST_DOCUMENTS
from tests.integration.tasks.answers import ids
from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.models.used_embedder import use_embedder
from tests.support.pipelines.indexed_texts import index_texts
from tests.support.pipelines.one_process import OneProcess
from tests.support.servers.redis_server import RedisServer

TEXTS = {
    "right": "Somebody asked why $1,299.00 is in the list.",
    "parts": "The numbers 00 and 299 and 1 are in the list.",
    **{f"common{place}": f"Rule ISO-9001 is number {place}." for place in range(MOST_DOCUMENTS + 1)},
}


@pytest.fixture(scope="module")
def here() -> Iterator[OneProcess]:
    with RedisServer() as server, OneProcess(server) as pipeline:
        use_embedder(pipeline.resources, HashingEmbedder(dimension=16))
        index_texts(pipeline.resources, "prices", {name: ("", text) for name, text in TEXTS.items()})
        yield pipeline
        pipeline.resources.writing_store.close()


def weights(here: OneProcess, question: str) -> dict[str, float]:
    """BM25's weight by document."""
    answer = here.ask(question, namespace="prices", include=["metadata", "explanation"], cache="bypass")
    return {hit.document_id: hit.branches["bm25"].weight for hit in answer.hits if "bm25" in hit.found_by}


@pytest.mark.parametrize("question", ["$1,299.00", "why 1'299.00 today?"])
def test_a_document_with_the_identifier_counts_more_than_one_with_its_parts(
    here: OneProcess, question: str
) -> None:
    answer = here.ask(question, namespace="prices", cache="bypass")
    assert ids(answer)[0] == "right"
    weight_of = weights(here, question)
    assert weight_of["right"] > 1 > weight_of["parts"]


def test_an_identifier_that_many_documents_have_and_a_question_without_one_leave_the_weights(
    here: OneProcess,
) -> None:
    for question in ("ISO 9001", "which rule is in the list?"):
        assert {round(weight, 6) for weight in weights(here, question).values()} == {0.3}
