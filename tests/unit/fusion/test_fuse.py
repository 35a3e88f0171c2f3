"""Fusing one question; copies fold, and documents with the question's identifiers whole stand above."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest
from chorale_client.request import Request
from chorale_client.wire_names import StageStatus

from fusion.deduplication import Duplicate, Why, deduplicate
from models.boost_plan import BoostPlan
from models.branch_result import BranchResult
from models.hits import Hit, Ranking
from tests.unit.fusion.builders import (
    answered,
    branch,
    branch_results,
    fuse_question,
    hit,
    ids,
    plan,
    request,
    texts,
)

THREE = branch_results(
    bm25=[hit("a", score=12.5), hit("b", score=9.0)],
    vector=[hit("b", 3, score=0.8), hit("c", score=0.7), hit("a", 1, score=0.6)],
    hyde=[hit("b", 3, score=0.9)],
)


def test_three_branches_become_one_explained_list() -> None:
    fused = fuse_question(plan(), THREE, 0, request())
    # The passage that earned most stands for its document: .4/63 is more than .3/61.
    assert [one.passage_id for one in fused.hits] == ["b#3", "a#1", "c#0"]
    best = fused.hits[0]
    assert best.score == pytest.approx(0.3 / 62 + 0.4 / 61 + 0.3 / 61, rel=1e-11)
    assert best.found_by == ("bm25", "hyde", "vector")
    vector = best.branches["vector"]
    assert (vector.rank, vector.score, vector.passage_id, vector.weight) == (1, 0.8, "b#3", 0.4)
    assert vector.normalised == pytest.approx(1 / 61)
    assert vector.contribution == pytest.approx(0.4 / 61)
    assert ids(fuse_question(plan(), THREE, 0, request(top_k=1, offset=1))) == ["a"]
    assert ids(fuse_question(plan(), THREE, 0, request(offset=3))) == []


def test_branches_agree_on_a_document_of_which_they_found_different_passages() -> None:
    results = branch_results(bm25=[hit("x"), hit("long", 7)], vector=[hit("y"), hit("long", 1)])
    assert ids(fuse_question(plan(), results, 0, request()))[0] == "long"
    by_passage = fuse_question(plan(), results, 0, request(fuse_by="passage"))
    assert [one.passage_id for one in by_passage.hits] == ["y#0", "long#1", "x#0", "long#7"]


def test_a_branch_that_failed_or_is_missing_or_found_nothing_contributes_nothing() -> None:
    for other in (BranchResult.failed("vector", "timeout"), BranchResult("vector", "empty")):
        fused = fuse_question(plan(), {"bm25": THREE["bm25"], "vector": other}, 0, request())
        assert ids(fused) == ["a", "b"]
        assert fused.hits[0].score == pytest.approx(0.3 / 61, rel=1e-11)


def test_each_question_takes_its_own_ranking() -> None:
    two = {"bm25": BranchResult("bm25", "ok", rankings=(Ranking((hit("a"),)), Ranking((hit("b"),))))}
    by_position = [ids(fuse_question(plan(), two, position, request())) for position in range(3)]
    assert by_position == [["a"], ["b"], []]


def test_excluded_documents_take_no_rank_and_hits_below_a_branchs_depth_do_not_count() -> None:
    fused = fuse_question(plan(), THREE, 0, request(exclude_ids=("b",)))
    assert ids(fused) == ["a", "c"]
    assert fused.hits[0].score == pytest.approx(0.3 / 61 + 0.4 / 62, rel=1e-11)
    shallow = plan((branch("bm25", depth=1), branch("vector", depth=1)))
    assert ids(fuse_question(shallow, THREE, 0, request())) == ["b", "a"]


def test_coverage_is_the_share_of_hits_of_several_groups_and_the_largest_known_number_the_total() -> None:
    results = branch_results(bm25=[hit("a")], vector=[hit("a"), hit("b")], hyde=[hit("b")])
    assert fuse_question(plan(), results, 0, request()).coverage == 0.5
    assert fuse_question(plan(), {}, 0, request()).coverage == 0
    assert fuse_question(plan(), THREE, 0, request(top_k=1)).total_matches == 3
    knowing = THREE | {
        "bm25": BranchResult("bm25", "ok", rankings=(Ranking((hit("a"),), total_matches=812),))
    }
    assert fuse_question(plan(), knowing, 0, request()).total_matches == 812


BOOSTS = BoostPlan(authority={"legge": 1.3}, recency_amount=0.5, recency_half_life_days=365)
MANY = branch_results(
    bm25=[hit(f"d{number:02}") for number in range(1, 31)]
    + [hit("law", source_type="legge", published_at="2026-01-01")]
)


def test_a_hit_lists_its_boosts_and_they_lift_it_five_places_at_most() -> None:
    fused = fuse_question(plan(boosts=BOOSTS), MANY, 0, request(top_k=40))
    assert ids(fused).index("law") + 1 == 31 - 5
    law = fused.hits[25]
    assert (law.boosts["authority"], law.boosts["recency"]) == (1.3, 1.5)
    assert law.boosts["bound"] == pytest.approx((1 / 85) / (1.3 * 1.5 / 91))


def test_boosts_apply_in_full_without_a_bound_and_not_at_all_if_the_request_says_off() -> None:
    free = BOOSTS.model_copy(update={"max_places": None})
    first = fuse_question(plan(boosts=free), MANY, 0, request(top_k=40)).hits[0]
    assert (first.document_id, first.boosts) == ("law", {"authority": 1.3, "recency": 1.5})
    last = fuse_question(plan(boosts=BOOSTS), MANY, 0, request(top_k=40, boosts="off")).hits[30]
    assert (last.document_id, last.boosts) == ("law", {})


COPIES = branch_results(
    bm25=[hit("a", content_hash="h"), hit("copy", content_hash="h"), hit("b")],
    vector=[hit("near", near_duplicate_group="b"), hit("copy", content_hash="h")],
)


def test_copies_fold_into_the_best_and_their_scores_are_not_summed() -> None:
    alone = {"copy": 0.3 / 62 + 0.4 / 62, "near": 0.4 / 61}
    fused = fuse_question(plan(), COPIES, 0, request())
    assert {one.document_id: one.score for one in fused.hits} == pytest.approx(alone, rel=1e-11)
    assert fused.hits[0].folded == (Duplicate("a", Why.EXACT_COPY, 1.0),)
    assert fused.hits[1].folded == (Duplicate("b", Why.NEAR_DUPLICATE, None),)


def test_the_stages_say_what_went_in_and_out() -> None:
    fused = fuse_question(plan(boosts=BOOSTS), COPIES, 0, request())
    assert [(note.stage, note.status, note.n_in, note.n_out) for note in fused.stages] == [
        ("collapse", "ok", 5, 5),
        ("fuse", "ok", 5, 4),
        ("boost", "ok", 4, 4),
        ("fold", "ok", 4, 2),
    ]
    without = fuse_question(plan(fold=False), COPIES, 0, request())
    skipped = [("boost", StageStatus.SKIPPED), ("fold", StageStatus.SKIPPED)]
    assert [(note.stage, note.status) for note in without.stages[2:]] == skipped
    assert ids(without) == ["copy", "near", "a", "b"]


def test_milliseconds_come_from_the_clock_that_is_given() -> None:
    ticks = count(start=5, step=0.002)
    fused = fuse_question(plan(boosts=BOOSTS), THREE, 0, request(), clock=lambda: next(ticks))
    assert [note.ms for note in fused.stages] == pytest.approx([2, 2, 2, 2])
    assert all(note.ms == 0 for note in fuse_question(plan(), THREE, 0, request()).stages)


def test_fields_that_only_one_branch_knows_are_taken_from_it() -> None:
    known = hit("a", content_hash="h", source_type="faq", published_at="2025-01-01")
    [best] = fuse_question(plan(), branch_results(bm25=[hit("a")], vector=[known]), 0, request()).hits
    assert (best.source_type, best.published_at) == ("faq", "2025-01-01")


def folded(*hits: Hit) -> dict[str, list[tuple[str, Why]]]:
    return {
        hits[index].passage_id: [(one.document_id, one.why) for one in duplicates]
        for index, duplicates in deduplicate(hits)
    }


def test_an_exact_copy_folds_into_the_better_scored_one_with_the_reason() -> None:
    best, copy = (hit(id_, content_hash="h", near_duplicate_group="best") for id_ in ("best", "copy"))
    other = hit("other", content_hash="x")
    assert deduplicate([best, other, copy]) == [(0, [Duplicate("copy", Why.EXACT_COPY, 1.0)]), (1, [])]
    # Without hash and group nothing folds.
    assert folded(hit("a"), hit("b"), hit("c", content_hash="")) == {"a#0": [], "b#0": [], "c#0": []}


def test_near_duplicates_fold_with_their_group_and_its_leader() -> None:
    leader, one = hit("leader"), hit("one", near_duplicate_group="leader")
    two = hit("two", near_duplicate_group="leader")
    near = Why.NEAR_DUPLICATE
    assert folded(leader, one, two) == {"leader#0": [("one", near), ("two", near)]}
    assert folded(two, leader, one) == {"two#0": [("leader", near), ("one", near)]}
    assert deduplicate([leader, one])[0][1][0].similarity is None


def test_folding_does_not_chain() -> None:
    first = hit("first", near_duplicate_group="g1", content_hash="1")
    middle = hit("middle", near_duplicate_group="g1", content_hash="2")
    last = hit("last", near_duplicate_group="g2", content_hash="2")
    assert folded(first, middle, last) == {"first#0": [("middle", Why.NEAR_DUPLICATE)], "last#0": []}


def test_passages_of_one_document_stay_apart_while_its_copies_fold_once() -> None:
    passages = [hit("a", 0, content_hash="h"), hit("a", 1, content_hash="h")]
    copies = [hit("b", 0, content_hash="h"), hit("b", 1, content_hash="h")]
    assert folded(*passages, *copies) == {"a#0": [("b", Why.EXACT_COPY)], "a#1": []}


RANKED = [hit("other", score=3.0), hit("right", score=2.9), hit("last", score=1.0)]
BY_VECTORS = [hit("other", score=0.9), hit("last", score=0.5)]


def order(method: str, whole: tuple[str, ...]) -> list[str]:
    results = {**branch_results(vector=BY_VECTORS, hyde=BY_VECTORS), "bm25": _naming(whole)}
    return ids(fuse_question(plan(method=method), results, 0, request("2.10.1")))


def _naming(whole: tuple[str, ...]) -> BranchResult:
    branch_result = answered("bm25", *RANKED)
    return replace(branch_result, rankings=(replace(branch_result.rankings[0], whole=whole),))


@pytest.mark.parametrize("method", ["rrf", "rrf-grouped", "tm2c2"])
def test_the_document_with_the_identifier_stands_above_those_that_every_branch_prefers(method: str) -> None:
    assert order(method, ())[0] == "other"
    assert order(method, ("right#0",))[0] == "right"


@pytest.mark.parametrize("method", ["paper", "elastic", "weaviate-relative"])
def test_methods_that_rank_as_another_system_does_keep_their_order(method: str) -> None:
    assert order(method, ("right#0",)) == order(method, ())


def test_its_weight_rises_by_the_weights_of_all_branches_and_other_scores_stay() -> None:
    results = {**branch_results(vector=BY_VECTORS, hyde=BY_VECTORS), "bm25": _naming(("right#0",))}
    hits = {one.document_id: one for one in fuse_question(plan(), results, 0, request("2.10.1")).hits}
    # .3 of BM25, and .3 + .4 + .3 of all.
    assert hits["right"].branches["bm25"].weight == pytest.approx(1.3)
    assert hits["right"].score == pytest.approx(1.3 / 62)
    assert hits["other"].score == pytest.approx((0.3 + 0.4 + 0.3) / 61)


def test_of_several_such_documents_the_better_one_is_first_also_by_passage() -> None:
    assert order("rrf", ("right#0", "last#0"))[:2] == ["last", "right"]
    search = Request(questions=("2.10.1",), request_id="r1", fuse_by="passage")
    branch_result = replace(answered("bm25", *RANKED), rankings=(_naming(("right#0",)).rankings[0],))
    by_passage = fuse_question(plan([branch("bm25"), branch("vector")]), {"bm25": branch_result}, 0, search)
    assert ids(by_passage)[0] == "right"


@pytest.mark.parametrize("lengths", [(0, 40), (40, 0), (40, 12)], ids=str)
def test_a_passage_that_two_stores_found_has_the_longest_of_its_texts(lengths: tuple[int, int]) -> None:
    """Two stores may search one index, by words and by vectors, and show different fields of it."""
    names = ("bm25", "vector")
    rankings = [Ranking((hit("a"),), texts=texts("a", text="x" * length)) for length in lengths]
    results = {
        name: BranchResult(name, "ok", rankings=(ranking,))
        for name, ranking in zip(names, rankings, strict=True)
    }
    fused = fuse_question(plan([*map(branch, names)]), results, 0, request())
    assert [len(text.text) for text in fused.texts.values()] == [40]
