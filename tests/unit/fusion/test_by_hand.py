"""Fusion by scores and by grouped ranks, worked out by hand; dense branches weigh less where their encoder does not know the language."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from fusion.candidates import fuse_rankings
from fusion.fused_hits import FusedQuestion
from fusion.methods import MIN_MAX, RRF_GROUPED, min_max_values
from fusion.rankings import KNOWN_SHARE, LEAST_SHARE, reliability
from models.branch_result import BranchResult
from models.declarations.fusion_method import BranchRanking
from models.hits import Ranking
from tasks.wiring.pipeline import BUILT_IN
from tests.unit.fusion.builders import (
    GROUPS,
    WEIGHTS,
    branch,
    fuse_question,
    ids,
    plan,
    ranking,
    request,
    scored,
)

LEXICAL = branch("bm25", 0.35).model_copy(update={"floor": 0.0})
BY_VECTORS = branch("vector", 0.65)


def fused_question(
    lexical: dict[str, float], dense: dict[str, float], *, known_words: float | None = None, **options: Any
) -> FusedQuestion:
    rankings = {
        "bm25": Ranking(scored("bm25", lexical).hits),
        "vector": Ranking(scored("vector", dense).hits, known_words=known_words),
    }
    results = {name: BranchResult(name, "ok", rankings=(ranking,)) for name, ranking in rankings.items()}
    return fuse_question(
        plan([LEXICAL, BY_VECTORS], **{"method": "min-max", **options}), results, 0, request()
    )


def test_scores_are_scaled_between_the_floor_and_the_best_and_weighted() -> None:
    lexical = scored("bm25", {"a": 10.0, "b": 5.0}, weight=0.4, floor=0.0)
    dense = scored("vector", {"b": 0.8, "a": 0.5, "c": 0.2}, weight=0.6)
    fused = {one.hit.document_id: one.score for one in fuse_rankings([lexical, dense], MIN_MAX, 60)}
    assert fused == pytest.approx({"a": 0.4 + 0.6 * 0.5, "b": 0.4 * 0.5 + 0.6, "c": 0.0}, rel=1e-11)
    assert min_max_values([2.0, -2.0], 0.0) == [1.0, 0.0], "below the floor"


@pytest.mark.parametrize(
    ("share", "factor"),
    [(None, 1), (0.93, 1), (KNOWN_SHARE, 1), (KNOWN_SHARE / 2, 1 / 4), (0.01, LEAST_SHARE), (0, LEAST_SHARE)],
)
def test_reliability_falls_with_the_share_of_known_words(share: float | None, factor: float) -> None:
    assert reliability(share) == pytest.approx(factor)


def test_in_an_unknown_language_the_vectors_weigh_less_and_the_hit_says_so() -> None:
    lexical, dense = {"a": 9.0, "b": 3.0}, {"b": 0.5, "c": 0.4, "a": 0.3}
    known, unknown = (fused_question(lexical, dense, known_words=share) for share in (0.9, 0.0))
    assert (ids(known)[0], ids(unknown)[0]) == ("b", "a")
    for one in (*known.hits, *unknown.hits):
        assert one.score == pytest.approx(sum(by.weight * by.normalised for by in one.branches.values()))
    assert known.hits[0].branches["vector"].weight == 0.65
    assert unknown.hits[1].branches["vector"].weight == pytest.approx(0.65 * LEAST_SHARE)


def test_by_ranks_the_factor_counts_twice() -> None:
    """At half of KNOWN_SHARE it is 1/4, so by ranks 1/16."""
    fused = fused_question({"a": 9.0}, {"b": 0.5}, known_words=KNOWN_SHARE / 2, method="rrf")
    weights = {name: branch.weight for hit in fused.hits for name, branch in hit.branches.items()}
    assert weights == pytest.approx({"bm25": 0.35, "vector": 0.65 / 16})


@pytest.mark.parametrize(
    "options", [{"method": "elastic"}, {"method": "weaviate-relative"}, {"trust_vectors": True}]
)
def test_presets_and_a_configuration_that_trusts_vectors_keep_the_weights_as_declared(
    options: dict[str, Any],
) -> None:
    fused = fused_question({"a": 9.0}, {"b": 0.5}, known_words=0.0, **options)
    assert fused.hits[0].branches["vector"].weight == 0.65


DENSE = [f"dense{number:02}" for number in range(1, 101)]


def three(**ids: Iterable[str]) -> list[BranchRanking]:
    return [ranking(name, ids.get(name, ()), weight=WEIGHTS[name], group=GROUPS[name]) for name in WEIGHTS]


def fused(rankings: list[BranchRanking], method: str, k: float) -> dict[str, float]:
    return {one.hit.document_id: one.score for one in fuse_rankings(rankings, BUILT_IN.methods[method], k)}


def test_an_identifier_that_only_bm25_finds_ranks_low_in_flat_and_near_the_top_in_grouped_fusion() -> None:
    rankings = three(bm25=["ERR-4711"], vector=DENSE, hyde=DENSE)
    # In flat fusion it is below all documents that both dense branches have up to rank 82.
    assert 0.7 / (60 + 82) > 0.3 / 61 > 0.7 / (60 + 83)
    assert list(fused(rankings, "rrf", 60)).index("ERR-4711") == 82
    scores = fused(rankings, "rrf-grouped", 10)
    assert scores["ERR-4711"] == pytest.approx(0.3 / 11, rel=1e-11)
    above = sum(0.35 / (10 + rank) > 0.3 / 11 for rank in range(1, 101))
    assert list(scores).index("ERR-4711") == above == 2


def test_a_group_counts_with_the_mean_of_its_weights_and_its_own_ranks() -> None:
    scores = fused(three(bm25=["a"], vector=["b", "a"], hyde=["a", "b"]), "rrf-grouped", 10)
    # Inside the dense group b has .4/11 + .3/12, a has .4/12 + .3/11: b is first.
    assert 0.4 / 11 + 0.3 / 12 > 0.4 / 12 + 0.3 / 11
    assert scores == pytest.approx({"a": 0.3 / 11 + 0.35 / 12, "b": 0.35 / 11}, rel=1e-11)


def test_branches_share_what_their_group_earned_in_proportion() -> None:
    rankings = three(vector=["x", "a"], hyde=["a"])
    [entries] = [
        one.entries for one in fuse_rankings(rankings, RRF_GROUPED, 10) if one.hit.document_id == "a"
    ]
    in_group = 0.4 / 12 + 0.3 / 11
    contributions = {branch.name: contribution for branch, _, contribution in entries}
    assert contributions["vector"].weight == pytest.approx(0.35 * (0.4 / 12) / in_group)
    assert contributions["hyde"].weight == pytest.approx(0.35 * (0.3 / 11) / in_group)
    assert contributions["vector"].normalised == contributions["hyde"].normalised == pytest.approx(1 / 11)


def test_a_branch_that_did_not_answer_or_weighs_nothing_does_not_change_what_its_group_counts() -> None:
    silent = ranking("shadow", ["a"], weight=0.0, group="dense")
    for rankings in (three(vector=["a"]), [*three(vector=["a"]), silent]):
        assert fused(rankings, "rrf-grouped", 10) == pytest.approx({"a": 0.35 / 11}, rel=1e-11)


def test_a_group_of_one_is_plain_rrf() -> None:
    alone = [ranking("bm25", ["a", "b"], weight=0.3), ranking("vector", ["b", "c"], weight=0.4)]
    assert fused(alone, "rrf-grouped", 60) == fused(alone, "rrf", 60)


def test_in_grouped_fusion_a_document_that_rises_may_fall_behind_a_third_one() -> None:
    """d1 passes d5 in one branch; d5 falls behind d6 inside the group, and that lifts d6 above d1."""
    vector = ranking("vector", ["d2", "d6", "d0", "d1", "d5"], weight=0.3, group="dense")
    bm25 = ranking("bm25", ["d2", "d6", "d1"], weight=0.3)

    def order(*ids: str) -> list[str]:
        return list(
            fused([vector, ranking("hyde", ids, weight=0.25, group="dense"), bm25], "rrf-grouped", 60)
        )

    assert 0.3 / 65 + 0.25 / 63 > 0.3 / 62 + 0.25 / 67 > 0.3 / 65 + 0.25 / 64
    assert order("d2", "d3", "d5", "d1", "d7", "d0", "d6")[:3] == ["d2", "d1", "d6"]
    assert order("d2", "d3", "d1", "d5", "d7", "d0", "d6")[:3] == ["d2", "d6", "d1"]
    assert not BUILT_IN.methods["rrf-grouped"].better_rank_never_lowers
