from __future__ import annotations

from fusion.fused_hits import BranchScore, FusedHit, texts_to_fetch
from models.plan import BranchPlan, Plan, RerankPlan


def branch(name: str, store: str) -> BranchPlan:
    return BranchPlan(
        name=name, kind="bm25", group=name, store=store, queue="q", weight=1, depth=10, limit_ms=1_000
    )


PLAN = Plan(
    configuration="rrf",
    namespace="ns",
    branches=(branch("a", "first"), branch("b", "second"), branch("c", "second")),
    method="rrf",
    k=60,
    generation=1,
    asked=(0,),
    now="2024-05-01T00:00:00+00:00",
    finish_reserve_ms=60,
    fusion_reserve_ms=160,
)
RERANK = RerankPlan(name="tiny", depth=50, coarse=100, budget_ms=400, weight=0.7)


def hit(passage_id: str, **chosen: str) -> FusedHit:
    """`chosen` is the passage of each branch."""
    branches = {name: BranchScore(1, 1.0, 1.0, 1.0, 1.0, passage) for name, passage in chosen.items()}
    return FusedHit("d", passage_id, 1.0, branches, {}, (), None, None)


def test_a_text_is_fetched_from_the_store_of_the_branch_that_chose_the_passage() -> None:
    hits = [hit("d#1", a="d#0", b="d#1"), hit("e#0", a="e#0", b="e#0"), hit("f#0", c="f#0")]
    reranked = PLAN.model_copy(update={"rerank": RERANK})
    assert texts_to_fetch(reranked, hits, known=()) == {"second": ["d#1", "f#0"], "first": ["e#0"]}


def test_the_other_passages_of_a_document_are_fetched_too_where_their_store_is_asked_anyway() -> None:
    hits = [hit("d#1", a="d#0", b="d#1", c="d#2")]
    assert texts_to_fetch(PLAN, hits, known=()) == {"second": ["d#1", "d#2"]}
    hits = [*hits, hit("e#0", a="e#0", b="e#0")]
    assert texts_to_fetch(PLAN, hits, known=()) == {"second": ["d#1", "d#2"], "first": ["e#0", "d#0"]}
    assert texts_to_fetch(PLAN, hits, known={"d#0", "d#1"}) == {"first": ["e#0"]}


def test_texts_that_came_with_a_ranking_are_not_fetched_and_no_text_is_fetched_twice() -> None:
    hits = [hit("d#0", a="d#0"), hit("e#0", a="e#0"), hit("e#0", a="e#0")]
    assert texts_to_fetch(PLAN, hits, known={"d#0"}) == {"first": ["e#0"]}
