"""LangChain's retriever, called as a chain calls it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from chorale_client import InvalidRequest
from chorale_client.adapters.langchain import ChoraleRetriever
from chorale_client.coverage import Coverage
from langchain_core.documents import Document

from tests.contracts.adapter import QUESTION, AdapterAnswer, AdapterContract, patient
from tests.support.pipelines.pipeline import RunningPipeline


class TestLangChain(AdapterContract):
    def ask(self, url: str, question: str, **options: Any) -> AdapterAnswer:
        coverages: list[Coverage] = []
        retriever = ChoraleRetriever(redis_url=url, on_coverage=coverages.append)
        return converted(retriever.invoke(question, **options), coverages)

    async def ask_async(self, url: str, question: str, **options: Any) -> AdapterAnswer:
        coverages: list[Coverage] = []
        retriever = ChoraleRetriever(redis_url=url, on_coverage=coverages.append)
        return converted(await retriever.ainvoke(question, **options), coverages)


def converted(documents: list[Document], coverages: list[Coverage]) -> AdapterAnswer:
    (coverage,) = coverages
    assert all(one.metadata["coverage"] == coverage for one in documents)
    return AdapterAnswer(
        [(one.metadata["document_id"], one.page_content, one.metadata["score"]) for one in documents],
        coverage,
    )


def test_a_document_has_its_score_and_its_ids(pipeline: RunningPipeline) -> None:
    retriever = ChoraleRetriever(redis_url=pipeline.server.url, options=patient(branches=["bm25"]))
    best = retriever.invoke(QUESTION)[0]
    assert best.id == "repairs#0"
    assert best.metadata["document_id"] == "repairs"
    assert best.metadata["score"] > 0
    assert (best.metadata["year"], best.metadata["found_by"]) == (2024, ["bm25"])


def test_options_of_a_call_win_over_those_of_the_retriever_and_unknown_ones_are_refused(
    pipeline: RunningPipeline,
) -> None:
    retriever = ChoraleRetriever(redis_url=pipeline.server.url, options=patient(branches=["vector"], top_k=3))
    assert len(retriever.invoke(QUESTION, top_k=2)) == 2
    with pytest.raises(InvalidRequest, match="k: unknown field"):
        retriever.invoke(QUESTION, k=2)


def test_the_address_is_not_shown_since_it_may_hold_a_password() -> None:
    assert "geheim" not in repr(ChoraleRetriever(redis_url="redis://:geheim@redis/0"))


def test_retrievers_of_one_loop_share_a_client(pipeline: RunningPipeline) -> None:
    """The client closes with the loop: a connection that is left open is a ResourceWarning, and fails the test."""

    def connections() -> set[str]:
        return {one["id"] for one in pipeline.redis.client_list()}

    async def opened_by_many() -> int:
        async def ask_one() -> None:
            retriever = ChoraleRetriever(redis_url=pipeline.server.url)
            await retriever.ainvoke(QUESTION, **patient(branches=["bm25"]))

        before = connections()
        await asyncio.gather(*(ask_one() for _ in range(40)))
        return len(connections() - before)

    # One connection for commands and one for announcements; the workers may open some, too.  A client each would be 80.
    assert asyncio.run(opened_by_many()) < 40
