"""LlamaIndex' retriever."""

from __future__ import annotations

from typing import Any

from chorale_client.coverage import Coverage

from tests.contracts.adapter import QUESTION, AdapterAnswer, AdapterContract, patient
from tests.support.pipelines.pipeline import CORPUS, RunningPipeline


def retriever(url: str, **arguments: Any) -> Any:
    # It takes seconds, in each process that collects the tests.
    from chorale_client.adapters.llama_index import ChoraleRetriever

    return ChoraleRetriever(url, **arguments)


class TestLlamaIndex(AdapterContract):
    def ask(self, url: str, question: str, **options: Any) -> AdapterAnswer:
        coverages: list[Coverage] = []
        return converted(
            retriever(url, options=options, on_coverage=coverages.append).retrieve(question), coverages
        )

    async def ask_async(self, url: str, question: str, **options: Any) -> AdapterAnswer:
        coverages: list[Coverage] = []
        adapter = retriever(url, options=options, on_coverage=coverages.append)
        return converted(await adapter.aretrieve(question), coverages)


def converted(nodes: list[Any], coverages: list[Coverage]) -> AdapterAnswer:
    (coverage,) = coverages
    assert all(one.metadata["coverage"] == coverage for one in nodes)
    return AdapterAnswer([(one.node.ref_doc_id or "", one.text, one.score or 0) for one in nodes], coverage)


def test_a_node_is_the_same_in_each_answer_and_names_its_document(pipeline: RunningPipeline) -> None:
    lexical = retriever(pipeline.server.url, options=patient(branches=["bm25"]))
    for question in (QUESTION, "What did the renter break on purpose?"):
        best = lexical.retrieve(question)[0].node
        assert (best.node_id, best.ref_doc_id) == ("repairs#0", "repairs")


def test_a_language_model_sees_the_title_and_no_scores(pipeline: RunningPipeline) -> None:
    from llama_index.core.schema import MetadataMode

    lexical = retriever(pipeline.server.url, options=patient(branches=["bm25"]))
    title, text = CORPUS["repairs"]
    assert lexical.retrieve(QUESTION)[0].node.get_content(MetadataMode.LLM) == f"title: {title}\n\n{text}"


def test_metadata_filters_are_those_of_the_request(pipeline: RunningPipeline) -> None:
    from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters

    filters = MetadataFilters(filters=[MetadataFilter(key="year", value=2020)])
    options = patient(branches=["vector"])
    filtered = retriever(pipeline.server.url, options=options, filters=filters)
    assert [one.node.ref_doc_id for one in filtered.retrieve(QUESTION)] == ["error"]


def test_hypotheses_of_a_query_transform_go_with_the_question(pipeline: RunningPipeline) -> None:
    from llama_index.core.schema import QueryBundle

    lexical = retriever(pipeline.server.url, options=patient(branches=["bm25"]))
    query = QueryBundle(QUESTION, custom_embedding_strs=["The landlord pays.", QUESTION])
    assert lexical.retrieve(query)[0].node.ref_doc_id == "repairs"
