"""The kinds of branches that search with the question, its variants or the filters alone; KINDS is the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from chorale_client.wire_names import Stage, StageStatus
from pydantic import Field, field_validator

from fusion.rankings import DENSE, LEXICAL
from inference.endpoints.language_models import EXPANSION_PROMPT
from models.declarations.extensions import BranchKind, Declared
from models.errors import NotConfigured, StageFailure
from models.hits import Ranking
from search.protocol import Fuses, Lists, TakesVectors
from tasks.branches.generators import AddTokens, Endpoint, Writer
from tasks.branches.graph import GRAPH

if TYPE_CHECKING:
    from chorale_client.request import Variant

    from tasks.branches.branch_task import BranchTask, Texts


class ExpansionOptions(Endpoint):
    """Whether a language model rewrites the question for this branch."""

    expansion: Literal["none", "openai"] = "none"
    replace: bool = False
    """Search with the rewrites alone.  A question without rewrites is then left out, because the branch would repeat
    a branch that searches the question itself."""

    @property
    def calls_model(self) -> bool:
        return self.expansion == "openai"

    def prompt_text(self, language: str) -> str:
        return EXPANSION_PROMPT

    def open_writer(self, language: str, variants: frozenset[str], add_tokens: AddTokens) -> Writer:
        chat = self.open_chat(add_tokens)
        from inference.endpoints.language_models import OpenAiExpander

        expander = OpenAiExpander(chat, kinds=tuple(sorted(variants)))
        return Writer(expander.expand, lambda texts: len(texts) == len(variants))


def expanded_texts(task: BranchTask, kinds: frozenset[str]) -> Texts:
    """The questions, and their variants of these kinds: the caller's, or those that the declared model writes.

    A question with variants of these kinds is not rewritten.  With `replace` a question without rewrites is left out; if
    that is every question, the model's failure is raised.
    """
    options = task.resources.generators.options(task.branch.name)
    if isinstance(options, ExpansionOptions) and options.calls_model:
        open_ = [
            index
            for index, question in enumerate(task.questions)
            if not any(variant.kind in kinds for variant in question.variants)
        ]
        if open_:
            return _with_rewrites(task, kinds, options, open_)
    return task.texts_of(kinds)


def _with_rewrites(
    task: BranchTask, kinds: frozenset[str], options: ExpansionOptions, open_: Sequence[int]
) -> Texts:
    """`open_`: the indices of the questions to rewrite."""
    from chorale_client.request import Variant

    from tasks.branches.generation import generate, note_failures, worst

    if kinds == DENSE:
        task.check_encoder()
    started = task.clock()
    more: list[tuple[Variant, ...]] = [()] * len(task.questions)
    failures: dict[int, StageFailure] = {}
    written = generate(task, [task.questions[index].text for index in open_], options)
    for index, result in zip(open_, written, strict=True):
        if isinstance(result, StageFailure):
            failures[index] = result
        else:
            assert isinstance(result, tuple)  # an expander has no parts
            named = zip(sorted(kinds), result, strict=True)
            more[index] = tuple(
                Variant.model_validate({"kind": kind, "text": text, "replace": options.replace})
                for kind, text in named
                if text
            )
    failed = worst(failures.values()) if options.replace and len(failures) == len(task.questions) else None
    why = "; ".join(dict.fromkeys(f"{failure.reason}: {failure.detail}" for failure in failures.values()))
    task.timed(
        Stage.EXPAND,
        started,
        f"openai ({why})"[:300] if why else "openai",
        _status(len(failures), len(task.questions), replace=options.replace, has_failed=failed is not None),
    )
    if failed is not None:
        raise failed
    note_failures(
        task, Stage.EXPAND, failures.values(), "left out" if options.replace else "without rewrites"
    )
    texts = task.texts_of(kinds, more)
    if not options.replace:
        return texts
    return [{} if index in failures else weights for index, weights in enumerate(texts)]


def _status(failures: int, questions: int, *, replace: bool, has_failed: bool) -> StageStatus:
    """`failed` and `skipped` mean that the branch searches nothing."""
    if not failures:
        return StageStatus.OK
    if failures < questions or not replace:
        return StageStatus.PARTIAL
    return StageStatus.FAILED if has_failed else StageStatus.SKIPPED


def search_bm25(task: BranchTask) -> list[Ranking]:
    from tasks.branches.whole_identifiers import with_whole_identifiers

    rankings = task.search_text(expanded_texts(task, LEXICAL), task.branch.depth)
    return with_whole_identifiers(task, rankings)


BM25 = BranchKind(
    search_bm25,
    options=ExpansionOptions,
    needs=frozenset({"text"}),
    variants=LEXICAL,
    store_search="text",
    options_in_plan=False,
    searches_http=False,
    floor=0.0,
    can_batch=True,
)


def search_vector(task: BranchTask) -> list[Ranking]:
    texts = expanded_texts(task, DENSE)
    return task.search_vectors(task.embed(texts), map(len, texts))


VECTOR = BranchKind(
    search_vector,
    options=ExpansionOptions,
    needs=frozenset({"questions", "vectors"}),
    variants=DENSE,
    store_search="vectors",
    options_in_plan=False,
    searches_http=False,
    always_finds=lambda options: True,
    can_batch=True,
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
        task.vector_search(task.branch.depth),
        alpha=options.alpha,
        fusion=options.fusion,
    )
    task.timed(Stage.SEARCH, started_s, f"alpha {options.alpha:g}, {options.fusion}")
    return rankings


HYBRID = BranchKind(
    search_hybrid,
    options=HybridOptions,
    needs=frozenset({"questions"}),
    store_search="hybrid",
    searches_http=False,
    always_finds=lambda options: HybridOptions(**options).alpha > 0,
    can_batch=True,
)


def search_http(task: BranchTask) -> list[Ranking]:
    texts = [{text: 1.0} for text in task.texts]
    if not (isinstance(task.store, TakesVectors) and task.store.takes_vectors):
        return task.search_text(texts, task.branch.depth)
    vectors, started_s = task.embed(texts), task.clock()
    # Nothing else is scored by the vectors, which may be those of another model than the namespace's.
    rankings = task.store.search_vectors(task.request.namespace, vectors, task.search(task.branch.depth))
    task.timed(Stage.SEARCH, started_s)
    return rankings


HTTP = BranchKind(search_http, searches_http=True)


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


DOCUMENT = BranchKind(
    search_document,
    options=ListingOptions,
    store_search="listing",
    searches_http=False,
    always_finds=lambda options: True,
)

KINDS: Mapping[str, BranchKind] = {
    "bm25": BM25,
    "document": DOCUMENT,
    "graph": GRAPH,
    "http": HTTP,
    "hybrid": HYBRID,
    "vector": VECTOR,
}
