from __future__ import annotations

from dataclasses import replace

from fusion.fused_hits import BranchScore, FusedHit, texts_to_fetch
from tests.unit.fusion.builders import RERANK, branch, plan

STORES = {"a": "first", "b": "second", "c": "second"}
PLAN = plan([branch(name).model_copy(update={"store": store}) for name, store in STORES.items()])


def hit(passage_id: str, **chosen: str) -> FusedHit:
    """`chosen` is the passage of each branch."""
    branches = {name: BranchScore(1, 1.0, 1.0, 1.0, 1.0, passage) for name, passage in chosen.items()}
    return FusedHit("d", passage_id, 1.0, branches, {}, (), None, None)


def test_a_text_is_fetched_from_the_store_of_the_branch_that_chose_the_passage() -> None:
    hits = [hit("d#1", a="d#0", b="d#1"), hit("e#0", a="e#0", b="e#0"), hit("f#0", c="f#0")]
    reranked = PLAN.model_copy(update={"rerank": RERANK})
    assert texts_to_fetch(reranked, hits, known=()) == {"second": ["d#1", "f#0"], "first": ["e#0"]}
    # Texts that came with a ranking are not fetched, and no text twice.
    hits = [hit("d#0", a="d#0"), hit("e#0", a="e#0"), hit("e#0", a="e#0")]
    assert texts_to_fetch(PLAN, hits, known={"d#0"}) == {"first": ["e#0"]}


def test_the_other_passages_of_a_document_are_fetched_too_where_their_store_is_asked_anyway() -> None:
    hits = [hit("d#1", a="d#0", b="d#1", c="d#2")]
    assert texts_to_fetch(PLAN, hits, known=()) == {"second": ["d#1", "d#2"]}
    hits = [*hits, hit("e#0", a="e#0", b="e#0")]
    assert texts_to_fetch(PLAN, hits, known=()) == {"second": ["d#1", "d#2"], "first": ["e#0", "d#0"]}
    assert texts_to_fetch(PLAN, hits, known={"d#0", "d#1"}) == {"first": ["e#0"]}


def test_no_store_is_asked_for_a_text_that_its_branch_only_scored() -> None:
    """As with `complete_scores`: the first branch, in name order, is of a store that does not have the passage."""
    completed = hit("d#1", a="d#1", b="d#1", c="d#2")
    not_found = replace(completed.branches["a"], rank=0)
    hits = [replace(completed, branches={**completed.branches, "a": not_found}), hit("e#0", a="e#0")]
    assert texts_to_fetch(PLAN, hits, known=()) == {"second": ["d#1", "d#2"], "first": ["e#0"]}
