"""Pinned documents come first and blocked ones not at all, on every page and after every later stage."""

from __future__ import annotations

from typing import Any

import pytest

from fusion.fused_hits import FusedQuestion, texts_to_fetch
from fusion.page import NO_PIN_LOOKUP, PinLookup, grouped, page_of
from fusion.rerank import Reached, rerank_question
from models.branch_result import BranchResult
from models.plan import Plan, QuestionRules, RerankPlan
from tests.unit.fusion.builders import branch, branch_results, fuse_question, hit, plan, request

RESULTS = branch_results(
    bm25=[hit(name, score=9.0 - place) for place, name in enumerate("abcdef")],
    vector=[hit(name, score=0.9 - place / 10) for place, name in enumerate("bacdgh")],
)
AWAY = PinLookup("elsewhere", {"away": hit("away")})


def ruled(plan_: dict[str, Any] | None = None, **rules: Any) -> Plan:
    rules_by_kind = {kind: dict.fromkeys(documents, "rule") for kind, documents in rules.items()}
    spare = len(rules.get("blocked", ()))
    branches = (branch("bm25", depth=6 + spare), branch("vector", depth=6 + spare))
    return plan(branches, rules={0: QuestionRules(**rules_by_kind)}, spare=spare, **(plan_ or {}))


def fused(
    planned: Plan,
    pin_lookup: PinLookup = NO_PIN_LOOKUP,
    results: dict[str, BranchResult] = RESULTS,
    **options: Any,
) -> FusedQuestion:
    return fuse_question(planned, results, 0, request(**{"top_k": 20, **options}), pin_lookup=pin_lookup)


def ids(one: FusedQuestion) -> str:
    return " ".join(hit.document_id for hit in one.hits)


def test_pinned_documents_come_first_in_their_order_and_keep_their_explanation() -> None:
    one = fused(ruled(pinned=["away", "h", "nothing", "c"]), AWAY)
    assert ids(one) == "away h c b a d g e f"
    assert [hit.pinned for hit in one.hits[:4]] == ["rule", "rule", "rule", None]
    away, h, *_ = one.hits
    assert (away.score, away.found_by, away.store) == (0.0, (), "elsewhere")
    assert (h.score > 0, h.found_by, h.store) == (True, ("vector",), None)
    assert (one.ordered_by, one.rules) == ("pinned", ("rule",))
    assert texts_to_fetch(plan(), one.hits[:2], ()) == {"elsewhere": ["away#0"], "local": ["h#0"]}


@pytest.mark.parametrize("top_k", [1, 2, 3, 4])
def test_pages_follow_one_another_without_a_gap_or_a_repetition(top_k: int) -> None:
    planned = ruled(pinned=["away", "h", "c"])
    pages = [ids(fused(planned, AWAY, top_k=top_k, offset=offset)) for offset in range(0, 9, top_k)]
    assert " ".join(pages) == "away h c b a d g e f"


def test_blocked_documents_are_counted_and_the_next_ones_take_their_places() -> None:
    plain = fused(ruled(), top_k=4)
    one = fused(ruled(blocked=["a", "c", "nothing"]), top_k=4)
    assert (ids(plain), ids(one)) == ("b a c d", "b d g h")
    assert one.removed == {"blocked": 2}
    assert (one.ordered_by, one.rules) == ("score", ("rule",))
    # What is left has the ranks, and so the scores, of a corpus without the blocked documents.
    assert one.hits[0].branches["bm25"].rank == one.hits[0].branches["vector"].rank == 1


def test_an_excluded_document_is_not_pinned_and_a_pinned_one_stands_above_thresholds() -> None:
    assert ids(fused(ruled(pinned=["away", "a"]), AWAY, exclude_ids=("away", "a"))) == "b c d g h e f"
    one = fused(ruled(pinned=["f"]), thresholds={"min_fused_score": 0.99})
    assert (ids(one), one.hits[0].store) == ("f b a", "local")


def test_a_copy_of_a_pinned_document_is_folded_into_it() -> None:
    results = branch_results(
        bm25=[hit("best", content_hash="same"), hit("pinned", content_hash="same"), hit("x")]
    )
    one = fused(ruled(pinned=["pinned"]), results=results)
    assert ids(one) == "pinned x"
    assert [copy.document_id for copy in one.hits[0].folded] == ["best"]


def test_pins_stay_first_after_reranking_grouping_and_a_cut() -> None:
    rerank = RerankPlan(name="r", depth=4, coarse=6, budget_ms=100, weight=0.9)
    planned = ruled(pinned=["away", "d"], plan_={"rerank": rerank})
    search = request(top_k=4, thresholds={"min_rerank_score": 0.5})
    one = fuse_question(planned, RESULTS, 0, search, pin_lookup=AWAY)
    logits = {"away#0": -5.0, "d#0": -5.0, "a#0": -1.0, "b#0": 3.0}
    page = rerank_question(one, rerank, Reached(set(logits), logits), search, planned)
    assert ids(page) == "away d b"
    assert all(hit.rerank for hit in page.hits)

    size_one = request(group_by="source_type", autocut=1, top_k=9)
    whole = fuse_question(planned, RESULTS, 0, size_one, pin_lookup=AWAY)
    assert size_one.group_by is not None
    assert ids(grouped(whole, size_one.group_by, {})).startswith("away d ")
    assert ids(page_of(whole, size_one, planned)).startswith("away d ")
