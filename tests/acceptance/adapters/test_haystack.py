"""Haystack's component, alone and in a pipeline."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.contracts.adapter import PATIENT, QUESTION, AdapterAnswer, AdapterContract, patient
from tests.support.pipelines.pipeline import RunningPipeline


def retriever(*address: Any, **options: Any) -> Any:
    # It takes seconds, in each process that collects the tests.
    from chorale_client.adapters.haystack import ChoraleRetriever

    return ChoraleRetriever(*address, **options)


class TestHaystack(AdapterContract):
    def ask(self, url: str, question: str, **options: Any) -> AdapterAnswer:
        return converted(retriever(url).run(question, options=options))

    async def ask_async(self, url: str, question: str, **options: Any) -> AdapterAnswer:
        return converted(await retriever(url).run_async(question, options=options))


def converted(outputs: dict[str, Any]) -> AdapterAnswer:
    assert outputs.keys() == {"documents", "coverage"}
    return AdapterAnswer(
        [(one.meta["document_id"], one.content, one.score) for one in outputs["documents"]],
        outputs["coverage"],
    )


LAW = {"field": "meta.year", "operator": "==", "value": 2024}


def test_filters_and_top_k_of_a_call_are_those_of_a_text_retriever(pipeline: RunningPipeline) -> None:
    by_meaning = retriever(pipeline.server.url, options=patient(branches=["vector"]))
    outputs = by_meaning.run(QUESTION, filters=LAW, top_k=2)
    assert [one.meta["year"] for one in outputs["documents"]] == [2024, 2024]


def test_a_saved_pipeline_asks_after_it_is_loaded(
    pipeline: RunningPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    from haystack import Pipeline

    monkeypatch.setenv("CHORALE_REDIS_URL", pipeline.server.url)
    made = Pipeline()
    made.add_component("retriever", retriever(options={"branches": ["bm25", "vector"], "top_k": 1}))
    saved = made.dumps()
    assert pipeline.server.url not in saved
    loaded = Pipeline.loads(saved, allowed_modules=["chorale_client.*"])
    inputs = {"retriever": {"query": QUESTION, "options": PATIENT}}
    for outputs in (loaded.run(inputs), asyncio.run(loaded.run_async(inputs))):
        assert converted(outputs["retriever"]).ids == ["repairs"]


def test_an_address_that_is_a_token_is_not_saved() -> None:
    from haystack.utils import Secret

    secret = retriever(Secret.from_token("redis://:password@redis/0"))
    with pytest.raises(ValueError, match="Cannot serialize token-based secret"):
        secret.to_dict()
