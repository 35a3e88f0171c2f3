"""The kinds of branches that search with the question, its variants or the filters alone; KINDS is the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from chorale_client.wire_names import Stage
from pydantic import Field, field_validator

from branches.branch_task import BranchTask
from branches.expansion import ExpansionOptions, expanded_texts
from branches.graph import GRAPH
from fusion.rankings import DENSE, LEXICAL
from models.errors import NotConfigured
from models.extensions import BranchKind, Declared
from models.hits import Ranking
from search.protocol import Fuses, Lists


def search_bm25(task: BranchTask) -> list[Ranking]:
    return task.search_text(expanded_texts(task, LEXICAL), task.branch.depth)


BM25 = BranchKind(
    search_bm25,
    options=ExpansionOptions,
    needs=frozenset({"text"}),
    variants=LEXICAL,
    options_in_plan=False,
    asks_http=False,
    floor=0.0,
    merges=True,
)


def search_vector(task: BranchTask) -> list[Ranking]:
    texts = expanded_texts(task, DENSE)
    return task.search_vectors(task.embed(texts), map(len, texts))


VECTOR = BranchKind(
    search_vector,
    options=ExpansionOptions,
    needs=frozenset({"questions", "vectors"}),
    variants=DENSE,
    options_in_plan=False,
    asks_http=False,
    merges=True,
)


class HybridOptions(Declared):
    alpha: float = Field(0.75, ge=0, le=1)
    """Weight of the vectors; BM25 has the rest.  0.75 is Weaviate's default."""
    fusion: Literal["relative", "ranked"] = "relative"
    """`relative`: by scores, scaled between the lowest and the highest; `ranked`: by ranks."""


def search_hybrid(task: BranchTask) -> list[Ranking]:
    """Variants are not searched: a store that fuses takes one text and one vector."""
    if not isinstance(task.store, Fuses):
        raise NotConfigured(f"the store {task.branch.store!r} cannot search text and vector in one")
    options = HybridOptions(**task.branch.options)
    vectors = task.embed([{text: 1.0} for text in task.texts])
    started_s = task.clock()
    rankings = task.store.search_hybrid(
        task.request.namespace,
        task.texts,
        vectors,
        task.search_of_vectors(task.branch.depth),
        alpha=options.alpha,
        fusion=options.fusion,
    )
    task.timed(Stage.SEARCH, started_s, f"alpha {options.alpha:g}, {options.fusion}")
    return rankings


HYBRID = BranchKind(
    search_hybrid, options=HybridOptions, needs=frozenset({"questions"}), asks_http=False, merges=True
)


def search_http(task: BranchTask) -> list[Ranking]:
    return task.search_text([{text: 1.0} for text in task.texts], task.branch.depth)


HTTP = BranchKind(search_http, asks_http=True)


class ListingOptions(Declared):
    """The order of the list."""

    order_by: str = Field("published_at", min_length=1, max_length=256)
    """A metadata field; documents without this field come last."""
    descending: bool = True
    """Newest, or largest, first."""
    without_filters: Literal["list", "never"] = "list"
    """Whether the branch lists all documents for a request without filters, the first ones of which are then in every answer."""

    @field_validator("order_by")
    @classmethod
    def _is_metadata(cls, value: str) -> str:
        if value in ("document_id", "source"):
            raise ValueError(f"{value!r} is no metadata, although filters accept it")
        return value


def search_document(task: BranchTask) -> list[Ranking]:
    """The same list for every question."""
    started_s, request, options = task.clock(), task.request, ListingOptions(**task.branch.options)
    if options.without_filters == "never" and not task.filters:
        task.timed(Stage.SEARCH, started_s, "no filters")
        return [Ranking() for _ in task.questions]
    if not isinstance(task.store, Lists):
        raise NotConfigured(f"the store {task.branch.store!r} cannot list documents by their metadata")
    ranking = task.store.list_documents(
        request.namespace,
        task.search(task.branch.depth),
        order_by=options.order_by,
        descending=options.descending,
    )
    task.timed(Stage.SEARCH, started_s, f"by {options.order_by}")
    return [ranking for _ in task.questions]


DOCUMENT = BranchKind(search_document, options=ListingOptions, asks_http=False)

KINDS: Mapping[str, BranchKind] = {
    "bm25": BM25,
    "document": DOCUMENT,
    "graph": GRAPH,
    "http": HTTP,
    "hybrid": HYBRID,
    "vector": VECTOR,
}
