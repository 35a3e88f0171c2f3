"""Promises of every fusion method."""

from collections.abc import Sequence
from dataclasses import replace
from math import fsum
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assembly.kinds import BUILT_IN
from fusion.candidates import fuse_rankings
from models.errors import WrongDeclaration
from models.fusion_method import BranchRanking, Method, Worth
from tests.unit.fusion.builders import ranking

IDS = [f"d{number}" for number in range(8)]
GROUPS = {"a": "lexical", "b": "dense", "c": "dense", "e": "graph"}

lists = st.lists(st.sampled_from(IDS), unique=True)
weights = st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.4, 1.0])
branches = st.fixed_dictionaries({name: st.tuples(lists, weights) for name in GROUPS}).map(
    lambda drawn: [
        ranking(name, ids, weight=weight, group=GROUPS[name]) for name, (ids, weight) in drawn.items()
    ]
)
ks = st.sampled_from([0.0, 1.0, 10.0, 60.0])
methods = pytest.mark.parametrize("method", BUILT_IN.methods.values(), ids=BUILT_IN.methods)


def order(rankings: list[BranchRanking], method: Method, k: float) -> list[str]:
    return [candidate.hit.document_id for candidate in fuse_rankings(rankings, method, k)]


def scores(rankings: list[BranchRanking], method: Method, k: float) -> dict[str, float]:
    return {one.hit.document_id: one.score for one in fuse_rankings(rankings, method, k)}


def test_an_unknown_method_is_refused_with_the_table() -> None:
    with pytest.raises(WrongDeclaration, match=r"no fusion method 'magic'; there are: rrf, rrf-grouped"):
        BUILT_IN.method("magic")


def test_a_hit_of_value_zero_is_still_a_candidate() -> None:
    """The last hit of a normalised list may have value 0; only hits of branches with weight 0 are left out."""

    def worths(rankings: Sequence[BranchRanking], k: float) -> list[Sequence[Worth]]:
        return [
            [Worth(one.weight, 1 - place / (len(one.ids) - 1)) for place in range(len(one.ids))]
            for one in rankings
        ]

    linear = Method("linear", worths, best=lambda k: 1, single_hit=lambda k: 1, all_equal=lambda k, rank: 1)
    rankings = [ranking("a", ["x", "y", "z"], weight=0.5), ranking("b", ["v", "w"], weight=0.0)]
    assert scores(rankings, linear, 60) == {"x": 0.5, "y": 0.25, "z": 0.0}


@methods
@given(branches, ks, st.randoms(use_true_random=False))
def test_the_order_of_the_branches_never_matters(
    method: Method, rankings: list[BranchRanking], k: float, random: Random
) -> None:
    shuffled = random.sample(rankings, len(rankings))
    assert fuse_rankings(shuffled, method, k) == fuse_rankings(rankings, method, k)


def risen(rankings: list[BranchRanking], data: st.DataObject) -> tuple[str, list[BranchRanking]]:
    """A document, and the rankings with that document one place higher in one of them."""
    chosen = data.draw(st.sampled_from([at for at, one in enumerate(rankings) if len(one.ids) > 1]))
    ids = list(rankings[chosen].ids)
    place = data.draw(st.integers(1, len(ids) - 1))
    ids[place - 1], ids[place] = ids[place], ids[place - 1]
    changed = ranking("", ids, weight=rankings[chosen].weight, group=rankings[chosen].group)
    other = [replace(changed, name=one.name) if at == chosen else one for at, one in enumerate(rankings)]
    return ids[place - 1], other


swappable = branches.filter(lambda rankings: any(len(one.ids) > 1 for one in rankings))


@methods
@given(swappable, ks, st.data())
def test_a_better_rank_never_lowers_a_score(
    method: Method, rankings: list[BranchRanking], k: float, data: st.DataObject
) -> None:
    document_id, other = risen(rankings, data)
    before, after = scores(rankings, method, k), scores(other, method, k)
    assert after.get(document_id, 0) >= before.get(document_id, 0) * (1 - 1e-11)


@pytest.mark.parametrize("method", [one for one in BUILT_IN.methods.values() if one.better_rank_never_lowers])
@given(swappable, ks, st.data())
def test_a_better_rank_never_lowers_the_place_if_the_method_declares_that(
    method: Method, rankings: list[BranchRanking], k: float, data: st.DataObject
) -> None:
    document_id, other = risen(rankings, data)
    before, after = order(rankings, method, k), order(other, method, k)
    assert (document_id in after) == (document_id in before)
    assert document_id not in before or after.index(document_id) <= before.index(document_id)


@methods
@given(branches, ks, st.sampled_from([0.125, 0.5, 2.0, 1024.0]))
def test_scaling_all_weights_scales_the_scores_and_keeps_the_order(
    method: Method, rankings: list[BranchRanking], k: float, factor: float
) -> None:
    scaled = [ranking(one.name, one.ids, weight=one.weight * factor, group=one.group) for one in rankings]
    assert order(scaled, method, k) == order(rankings, method, k)
    expected = {id_: score * factor for id_, score in scores(rankings, method, k).items()}
    assert scores(scaled, method, k) == pytest.approx(expected)


@methods
@given(branches, ks)
def test_a_branch_of_weight_zero_changes_no_score(
    method: Method, rankings: list[BranchRanking], k: float
) -> None:
    silent = ranking("z", IDS[:4], weight=0.0, group="dense")
    assert scores([*rankings, silent], method, k) == scores(rankings, method, k)


@methods
@given(branches, ks)
def test_a_document_that_a_branch_did_not_find_earns_nothing_from_it(
    method: Method, rankings: list[BranchRanking], k: float
) -> None:
    assert method.absent == 0.0
    for candidate in fuse_rankings(rankings, method, k):
        finders = [one.name for one in rankings if candidate.hit.document_id in one.ids]
        assert sorted(one.name for one, _, _ in candidate.found) == sorted(finders)
        assert candidate.score == pytest.approx(
            fsum(worth.weight * worth.normalised for *_, worth in candidate.found)
        )


@methods
@given(branches, ks)
def test_normalised_values_stay_in_the_declared_range(
    method: Method, rankings: list[BranchRanking], k: float
) -> None:
    for row in method.worths(rankings, k):
        assert all(0 <= worth.normalised <= method.best(k) for worth in row)
        assert all(worth.weight >= 0 for worth in row)


@methods
@given(ks, st.integers(1, 6))
def test_the_values_of_a_single_hit_and_of_equal_hits_are_as_declared(
    method: Method, k: float, length: int
) -> None:
    [row] = method.worths([ranking("a", IDS[:1], weight=0.3)], k)
    assert [worth.normalised for worth in row] == [method.single_hit(k)]
    [row] = method.worths([ranking("a", IDS[:length], weight=0.3)], k)
    assert [worth.normalised for worth in row] == [method.all_equal(k, rank + 1) for rank in range(length)]


@methods
def test_fusing_no_branches_or_no_hits_gives_no_candidates(method: Method) -> None:
    assert fuse_rankings([], method, 60) == []
    assert fuse_rankings([ranking("a", []), ranking("b", [], group="a")], method, 60) == []


@methods
def test_equal_scores_are_ordered_by_id(method: Method) -> None:
    rankings = [ranking("a", ["y", "x"], weight=0.3), ranking("b", ["x", "y"], weight=0.3)]
    assert order(rankings, method, 60) == ["x", "y"]
