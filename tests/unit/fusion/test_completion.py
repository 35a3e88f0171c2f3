"""Before scores are fused, each branch also scores what only other branches found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import fsum
from typing import Any

import pytest

from fusion.fused_hits import FusedQuestion
from fusion.methods import dbsf_values
from fusion.rankings import completed, unscored
from models.fusion_method import BranchRanking
from models.hits import Hit
from tests.unit.fusion.builders import branch, branch_results, fuse_question, hit, plan, request, scored

LEXICAL = branch("bm25", 0.45).model_copy(update={"floor": 0.0})
FOUND: Mapping[str, Sequence[Hit]] = {
    "bm25": [hit("a", 1, score=12.0), hit("b", score=6.0)],
    "vector": [hit("b", 3, score=0.8), hit("c", score=0.7), hit("d", score=0.5)],
}
SCORES = {"bm25": {"c#0": 3.0}, "vector": {"a#1": 0.4}}


def ranked(name: str, *hits: Hit, **fields: Any) -> BranchRanking:
    return replace(scored(name, {}, **fields), ids=tuple(one.document_id for one in hits), hits=hits)


def fused(scores: Mapping[str, Mapping[str, float]]) -> FusedQuestion:
    asked = plan([LEXICAL, branch("vector", 0.55)], method="dbsf", complete_scores=True)
    return fuse_question(asked, branch_results(**FOUND), 0, request(), scores=scores)


def test_a_branch_has_to_score_the_passages_that_others_found_of_documents_it_did_not_find() -> None:
    both = [ranked(name, *hits) for name, hits in FOUND.items()]
    more = ranked("hyde", hit("a", 2), hit("c"))
    wanted = {
        name: {id_: [one.passage_id for one in hits] for id_, hits in missing.items()}
        for name, missing in unscored([*both, more]).items()
    }
    assert wanted == {
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
    assert (whole.ids, whole.found) == (("a", "c", "b"), 1)


def test_a_score_that_is_not_known_is_the_floor_or_that_of_the_last_hit() -> None:
    lexical = ranked("bm25", hit("a", score=9.0, content_hash="same"), hit("b", score=4.0), floor=0.0)
    dense = ranked("vector", hit("c", score=0.6), hit("b", score=0.3))
    by_name = {one.name: one for one in completed([lexical, dense], {})}
    assert by_name["bm25"].hits[2] == hit("c", score=0.0)
    assert by_name["vector"].hits[2] == hit("a", score=0.3, content_hash="same")


def test_every_candidate_shows_a_score_of_each_branch_and_its_own_follows_from_them() -> None:
    found = {one.document_id: one for one in fused(SCORES).hits}
    assert set(found) == {"a", "b", "c", "d"}
    columns = {"bm25": [12.0, 6.0, 3.0, 0.0], "vector": [0.4, 0.8, 0.7, 0.5]}
    for place, one in enumerate(found[id_] for id_ in "abcd"):
        for name, scores in columns.items():
            said = one.branches[name]
            assert said.score == scores[place]
            assert said.normalised == pytest.approx(dbsf_values(scores)[place])
        assert one.score == pytest.approx(fsum(said.contribution for said in one.branches.values()))


def test_a_branch_that_only_scored_a_document_has_not_found_it() -> None:
    hits = {one.document_id: one for one in fused(SCORES).hits}
    found_by = {"a": ("bm25",), "b": ("bm25", "vector"), "c": ("vector",), "d": ("vector",)}
    assert {id_: one.found_by for id_, one in hits.items()} == found_by
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
