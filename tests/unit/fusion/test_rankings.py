"""How rankings are prepared: passages collapse, missing scores are completed, and the texts of one question are merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import fsum
from typing import Any

import pytest
from chorale_client.request import Variant
from hypothesis import given
from hypothesis import strategies as st

from fusion.fused_hits import FusedQuestion
from fusion.methods import dbsf_values
from fusion.rankings import (
    DENSE,
    LEXICAL,
    branch_texts,
    collapse_ranking,
    completed,
    merged_dense,
    merged_lexical,
    unscored,
)
from models.declarations.fusion_method import BranchRanking
from models.hits import Hit, Ranking
from tests.unit.fusion.builders import branch, branch_results, fuse_question, hit, plan, request, scored

LONG = hit("long", 3), hit("long", 1), hit("short", 0), hit("long", 0), hit("other", 5)


def test_the_best_passage_stands_for_its_document_and_depth_counts_documents() -> None:
    """So that one long document cannot fill a branch, and excluded documents leave no gap."""
    ranking = Ranking(LONG, total_matches=40, warnings=("no field 'yaer'",))
    assert collapse_ranking(ranking).hits == (LONG[0], LONG[2], LONG[4])
    shallow = collapse_ranking(ranking, 2)
    assert [one.document_id for one in shallow.hits] == ["long", "short"]
    assert (shallow.total_matches, shallow.warnings) == (40, ("no field 'yaer'",))
    assert collapse_ranking(ranking, 2, exclude_ids=("long",)).hits == (LONG[2], LONG[4])


def test_fusing_by_passage_keeps_every_passage_once() -> None:
    twice = Ranking((*LONG, LONG[1]))
    assert collapse_ranking(twice, fuse_by="passage").hits == LONG
    assert collapse_ranking(twice, 2, fuse_by="passage").hits == LONG[:2]
    with pytest.raises(ValueError, match="document, passage"):
        collapse_ranking(twice, fuse_by="chapter")


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 3))), st.integers(0, 6))
def test_collapsing_a_second_time_changes_nothing(pairs: list[tuple[str, int]], depth: int) -> None:
    once = collapse_ranking(Ranking(tuple(hit(id_, position) for id_, position in pairs)), depth)
    assert collapse_ranking(once, depth) is once
    assert [one.document_id for one in once.hits] == list(dict.fromkeys(id_ for id_, _ in pairs))[:depth]


BY_WORDS = branch("bm25", 0.45).model_copy(update={"floor": 0.0})
HITS: Mapping[str, Sequence[Hit]] = {
    "bm25": [hit("a", 1, score=12.0), hit("b", score=6.0)],
    "vector": [hit("b", 3, score=0.8), hit("c", score=0.7), hit("d", score=0.5)],
}
SCORES = {"bm25": {"c#0": 3.0}, "vector": {"a#1": 0.4}}


def ranked(name: str, *hits: Hit, **fields: Any) -> BranchRanking:
    return replace(scored(name, {}, **fields), ids=tuple(one.document_id for one in hits), hits=hits)


def fused(scores: Mapping[str, Mapping[str, float]]) -> FusedQuestion:
    planned = plan([BY_WORDS, branch("vector", 0.55)], method="dbsf", complete_scores=True)
    return fuse_question(planned, branch_results(**HITS), 0, request(), scores=scores)


def test_a_branch_has_to_score_the_passages_that_others_found_of_documents_it_did_not_find() -> None:
    both = [ranked(name, *hits) for name, hits in HITS.items()]
    more = ranked("hyde", hit("a", 2), hit("c"))
    unscored_ids = {
        name: {id_: [one.passage_id for one in hits] for id_, hits in missing.items()}
        for name, missing in unscored([*both, more]).items()
    }
    assert unscored_ids == {
        "bm25": {"c": ["c#0", "c#0"], "d": ["d#0"]},
        "vector": {"a": ["a#1", "a#2"]},
        "hyde": {"b": ["b#0", "b#3"], "d": ["d#0"]},
    }


def test_neither_a_branch_without_hits_nor_one_of_weight_zero_takes_part() -> None:
    rankings = [ranked("bm25", hit("a")), ranked("silent", hit("z"), weight=0.0), ranked("empty")]
    assert unscored(rankings) == {"bm25": {}}
    assert completed(rankings, {"silent": {"a#0": 1.0}}) == rankings


def test_the_best_scored_passage_stands_for_the_document_behind_the_branchs_own_hits() -> None:
    own = ranked("vector", hit("a", score=0.9))
    other = [ranked("bm25", hit("b", 1), hit("c")), ranked("hyde", hit("b", 2))]
    [whole, *_] = completed([own, *other], {"vector": {"b#1": 0.2, "b#2": 0.5, "c#0": 0.7}})
    assert [(one.passage_id, one.score) for one in whole.hits] == [("a#0", 0.9), ("c#0", 0.7), ("b#2", 0.5)]
    assert (whole.ids, whole.n_retrieved) == (("a", "c", "b"), 1)


def test_a_score_that_is_not_known_is_the_floor_or_that_of_the_last_hit() -> None:
    lexical = ranked("bm25", hit("a", score=9.0, content_hash="same"), hit("b", score=4.0), floor=0.0)
    dense = ranked("vector", hit("c", score=0.6), hit("b", score=0.3))
    by_name = {one.name: one for one in completed([lexical, dense], {})}
    assert by_name["bm25"].hits[2] == hit("c", score=0.0)
    assert by_name["vector"].hits[2] == hit("a", score=0.3, content_hash="same")


def test_every_candidate_shows_a_score_of_each_branch_and_its_own_follows_from_them() -> None:
    by_id = {one.document_id: one for one in fused(SCORES).hits}
    assert set(by_id) == {"a", "b", "c", "d"}
    columns = {"bm25": [12.0, 6.0, 3.0, 0.0], "vector": [0.4, 0.8, 0.7, 0.5]}
    for place, one in enumerate(by_id[id_] for id_ in "abcd"):
        for name, scores in columns.items():
            branch_score = one.branches[name]
            assert branch_score.score == scores[place]
            assert branch_score.normalised == pytest.approx(dbsf_values(scores)[place])
        assert one.score == pytest.approx(
            fsum(branch_score.contribution for branch_score in one.branches.values())
        )


def test_a_branch_that_only_scored_a_document_has_not_found_it() -> None:
    hits = {one.document_id: one for one in fused(SCORES).hits}
    branches = {"a": ("bm25",), "b": ("bm25", "vector"), "c": ("vector",), "d": ("vector",)}
    assert {id_: one.found_by for id_, one in hits.items()} == branches
    assert (hits["a"].branches["vector"].rank, hits["a"].branches["bm25"].rank) == (0, 1)
    assert fused(SCORES).coverage == 1 / 4


def test_dbsf_is_as_documented_by_qdrant_and_keeps_a_clear_lead() -> None:
    """https://qdrant.tech/documentation: three standard deviations (n - 1) around the mean, one hit is .5."""
    mean, sigma = 2.0, 1.0
    assert dbsf_values([3.0, 2.0, 1.0]) == pytest.approx(
        [(score - (mean - 3 * sigma)) / (6 * sigma) for score in (3.0, 2.0, 1.0)]
    )
    assert (dbsf_values([7.0]), dbsf_values([]), dbsf_values([2.0, 2.0])) == (
        [0.5],
        [],
        [0.5, 0.5],
    )
    assert dbsf_values([100.0, *[1.0] * 60])[0] > 1
    assert dbsf_values([*[1.0] * 60, -100.0])[-1] == 0


def variant(kind: str, text: str, *, replace: bool = False) -> Variant:
    return Variant.model_validate({"kind": kind, "text": text, "replace": replace})


def with_scores(**scores: float) -> Ranking:
    return Ranking(tuple(Hit(name, name, score) for name, score in scores.items()), total_matches=9)


def scores_of(ranking: Ranking) -> dict[str, float]:
    return {hit.passage_id: hit.score for hit in ranking.hits}


def test_each_branch_takes_only_the_variants_of_its_own_kinds() -> None:
    variants = [variant("keyword", "tea"), variant("semantic", "What is tea?"), variant("entity", "Assam")]
    assert branch_texts("q", variants, LEXICAL) == {"q": 1, "tea": 0.5, "Assam": 0.5}
    assert branch_texts("q", variants, DENSE) == {"q": 1, "What is tea?": 0.5}
    # A text that comes twice is searched once.
    assert branch_texts("q", [variant("keyword", "q"), variant("entity", "q")], LEXICAL) == {"q": 1}


def test_a_variant_that_replaces_the_question_gets_the_questions_weight_unless_it_has_no_text() -> None:
    variants = [variant("keyword", "tea"), variant("entity", "Assam", replace=True)]
    assert branch_texts("q", variants, LEXICAL) == {"Assam": 1, "tea": 0.5}
    assert branch_texts("q", [variant("keyword", " \n", replace=True)], LEXICAL) == {"q": 1}


def test_one_text_keeps_its_ranking_as_it_is() -> None:
    one = with_scores(a=3, b=1)
    assert merged_lexical([one], [1]) is one
    assert merged_dense([one]) is one


def test_bm25_sums_the_scores_of_all_texts_on_the_first_ones_scale() -> None:
    # The scale is 8 / (1 + .5); a has 8/8 there and 1/4 of the variant, b 2/8 and nothing, c the variant's best.
    merged = merged_lexical([with_scores(a=8, b=2), with_scores(c=4, a=1)], [1, 0.5])
    unit = 8 / 1.5
    assert scores_of(merged) == pytest.approx(
        {"a": unit * (1 + 0.5 / 4), "c": unit * 0.5, "b": unit * 2 / 8}, rel=1e-12
    )
    assert [hit.passage_id for hit in merged.hits] == ["a", "c", "b"]
    # A hit that is first for every text keeps the top score.
    assert scores_of(merged_lexical([with_scores(a=8), with_scores(a=3)], [1, 0.5])) == pytest.approx(
        {"a": 8}
    )
    # The variant's scale holds if the question finds nothing.
    merged = merged_lexical([with_scores(), with_scores(a=3, b=1.5)], [1, 0.5])
    assert scores_of(merged) == pytest.approx({"a": 3 / 1.5 * 0.5, "b": 3 / 1.5 * 0.25})


def test_dense_takes_the_best_cosine_and_ties_go_by_id_in_any_order_of_the_texts() -> None:
    best = merged_dense([with_scores(a=0.9, b=0.2), with_scores(b=0.5, c=-0.1)])
    assert scores_of(best) == {"a": 0.9, "b": 0.5, "c": -0.1}
    one, other = with_scores(b=1, a=1), with_scores(c=1)
    assert [hit.passage_id for hit in merged_dense([one, other]).hits] == ["a", "b", "c"]
    assert merged_dense([one, other]).hits == merged_dense([other, one]).hits


def test_warnings_stay_once_and_the_total_is_not_known() -> None:
    warned = Ranking(warnings=("no field x",))
    merged = merged_dense([warned, warned])
    assert (merged.warnings, merged.total_matches) == (("no field x",), None)
