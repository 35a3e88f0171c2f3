"""LlamaIndex' retriever."""

from __future__ import annotations

from typing import Any, cast

from chorale_client.adapters.llama_index import ChoraleRetriever
from chorale_client.coverage import Coverage
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters

from tests.contracts.adapter import QUESTION, AdapterContract, Found, patient
from tests.support.pipelines.pipeline import CORPUS, RunningPipeline


class TestLlamaIndex(AdapterContract):
    def ask(self, url: str, question: str, **options: Any) -> Found:
        told: list[Coverage] = []
        retriever = ChoraleRetriever(url, options=cast(Any, options), on_coverage=told.append)
        return found(retriever.retrieve(question), told)

    async def ask_async(self, url: str, question: str, **options: Any) -> Found:
        told: list[Coverage] = []
        retriever = ChoraleRetriever(url, options=cast(Any, options), on_coverage=told.append)
        return found(await retriever.aretrieve(question), told)


def found(nodes: list[NodeWithScore], told: list[Coverage]) -> Found:
    (coverage,) = told
    assert all(one.metadata["coverage"] == coverage for one in nodes)
    return Found([(one.node.ref_doc_id or "", one.text, one.score or 0) for one in nodes], coverage)


def test_a_node_is_the_same_in_each_answer_and_names_its_document(pipeline: RunningPipeline) -> None:
    retriever = ChoraleRetriever(pipeline.server.url, options=patient(branches=["bm25"]))
    for question in (QUESTION, "What did the renter break on purpose?"):
        best = retriever.retrieve(question)[0].node
        assert (best.node_id, best.ref_doc_id) == ("repairs#0", "repairs")


def test_a_language_model_sees_the_title_and_no_scores(pipeline: RunningPipeline) -> None:
    retriever = ChoraleRetriever(pipeline.server.url, options=patient(branches=["bm25"]))
    title, text = CORPUS["repairs"]
    assert retriever.retrieve(QUESTION)[0].node.get_content(MetadataMode.LLM) == f"title: {title}\n\n{text}"


def test_metadata_filters_are_those_of_the_request(pipeline: RunningPipeline) -> None:
    filters = MetadataFilters(filters=[MetadataFilter(key="year", value=2020)])
    options = patient(branches=["vector"])
    retriever = ChoraleRetriever(pipeline.server.url, options=options, filters=filters)
    assert [one.node.ref_doc_id for one in retriever.retrieve(QUESTION)] == ["error"]


def test_hypotheses_of_a_query_transform_go_with_the_question(pipeline: RunningPipeline) -> None:
    told: list[Coverage] = []
    options = patient(branches=["bm25"])
    retriever = ChoraleRetriever(pipeline.server.url, options=options, on_coverage=told.append)
    query = QueryBundle(QUESTION, custom_embedding_strs=["The landlord pays.", QUESTION])
    assert retriever.retrieve(query)[0].node.ref_doc_id == "repairs"
