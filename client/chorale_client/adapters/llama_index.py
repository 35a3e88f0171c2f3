"""LlamaIndex' retriever: `pip install -e './client[llama-index]'`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from chorale_client.adapters import needs
from chorale_client.adapters.connection import Connection, OnCoverage, Retrieved, RetrievedDocument
from chorale_client.adapters.framework_filters import Condition, all_of, condition, negated, refused
from chorale_client.coverage import Coverage
from chorale_client.limits import MAX_REWRITES
from chorale_client.request_factory import RequestOptions

with needs("llama-index"):
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.schema import (
        NodeRelationship,
        NodeWithScore,
        QueryBundle,
        RelatedNodeInfo,
        TextNode,
    )
    from llama_index.core.vector_stores.types import FilterCondition, MetadataFilters


class ChoraleRetriever(BaseRetriever):
    """Nodes have the passage's id, and the document's id as `ref_doc_id`.

    Each node has the `coverage` of the answer in its metadata, where no language model and no embedder sees it.  The
    texts that `HyDEQueryTransform` adds to a query become hypothetical documents.
    """

    def __init__(
        self,
        redis_url: str | None = None,
        *,
        broker_url: str | None = None,
        options: RequestOptions | None = None,
        filters: MetadataFilters | None = None,
        on_coverage: OnCoverage | None = None,
        **base: Any,
    ) -> None:
        """`options` are fields of `Request`; `filters` replace theirs; `base` are arguments of BaseRetriever.

        `on_coverage` is called with the coverage of each answer, also of one without documents.
        """
        super().__init__(**base)
        chosen = RequestOptions(**(options or {}))
        if filters is not None:
            chosen["filters"] = request_filters(filters)
        self._connection = Connection(
            redis_url, broker_url=broker_url, options=chosen, on_coverage=on_coverage
        )

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(self._connection.ask(_question(query_bundle)))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(await self._connection.ask_async(_question(query_bundle)))


def request_filters(filters: MetadataFilters) -> dict[str, Any]:
    """LlamaIndex' filters as a request's.

    Raises InvalidRequest for OR of several conditions, and for NOT of several fields, which a request cannot express.
    """
    return all_of(_conditions(filters))


def _conditions(filters: MetadataFilters) -> Iterator[Condition]:
    inner: list[Condition] = []
    for part in filters.filters:
        if isinstance(part, MetadataFilters):
            inner += _conditions(part)
        else:
            inner.append(condition(part.key, part.operator.value, part.value))
    if filters.condition == FilterCondition.NOT:
        yield negated(inner)
    elif filters.condition == FilterCondition.OR and len(inner) > 1:
        raise refused("or")
    else:
        yield from inner


def _question(query: QueryBundle) -> dict[str, Any]:
    hypotheses = [text for text in query.custom_embedding_strs or () if text != query.query_str]
    return {"text": query.query_str, "hypothetical_documents": hypotheses[:MAX_REWRITES]}


def _nodes(retrieved: Retrieved) -> list[NodeWithScore]:
    return [
        NodeWithScore(node=_node(document, retrieved.coverage), score=document.score)
        for document in retrieved.documents
    ]


def _node(document: RetrievedDocument, coverage: Coverage) -> TextNode:
    unseen = [
        name for name in (*document.metadata, "coverage") if name not in ("title", "url", "published_at")
    ]
    return TextNode(
        id_=document.passage_id,
        text=document.text,
        metadata={**document.metadata, "coverage": coverage},
        excluded_llm_metadata_keys=unseen,
        excluded_embed_metadata_keys=unseen,
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=document.document_id)},
    )
