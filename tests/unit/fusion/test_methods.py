"""The contract of every fusion method: those of `fusion.methods`, and those of `fusion.presets`."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import fsum, inf, isfinite, nan
from random import Random
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.candidates import fuse_rankings
from fusion.conditions import attainable
from models.declarations.fusion_method import BranchRanking, Method
from tasks.wiring.pipeline import BUILT_IN
from tests.unit.fusion.builders import hit, ranking

IDS = [f"d{number}" for number in range(8)]
GROUPS = {"b": "dense", "bm25": "lexical", "c": "dense", "e": "graph"}
METHODS = tuple(BUILT_IN.methods.values())

Rankings: TypeAlias = list[BranchRanking]
Change: TypeAlias = Callable[[Rankings, st.DataObject], tuple[str, Rankings]]

weights = st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.4, 1.0])
ks = st.sampled_from([0.0, 1.0, 10.0, 60.0])
plain = st.integers(0, 40).map(float)
not_tiny = st.one_of(plain, st.sampled_from([nan, inf, -inf, 1e308, -1e308, 0.0, -3.0]))
odd = st.one_of(not_tiny, st.floats(), st.just(1e-308))
methods = pytest.mark.parametrize("method", METHODS, ids=BUILT_IN.methods)


def scored(name: str, scores: Mapping[str, float], **fields: Any) -> BranchRanking:
    """A ranking by falling scores; what is no number comes last."""
    ids = sorted(scores, key=lambda id_: (scores[id_] != scores[id_], -scores[id_], id_))
    hits = tuple(hit(id_, score=scores[id_]) for id_ in ids)
    return replace(ranking(name, ids, group=GROUPS[name]), hits=hits, **fields)


def rankings_with(scores: st.SearchStrategy[float]) -> st.SearchStrategy[Rankings]:
    lists = st.dictionaries(st.sampled_from(IDS), scores)
    floors, halves = st.sampled_from([None, 0.0]), st.sampled_from([None, 0.5, 20.0])
    return st.fixed_dictionaries({name: st.tuples(lists, weights, floors, halves) for name in GROUPS}).map(
        lambda drawn: [
            scored(name, scores, weight=weight, floor=floor, half=half)
            for name, (scores, weight, floor, half) in drawn.items()
        ]
    )


branches, odd_branches = rankings_with(plain), rankings_with(odd)
swappable = branches.filter(lambda rankings: any(len(one.ids) > 1 for one in rankings))


def order(rankings: Rankings, method: Method, k: float) -> list[str]:
    return [candidate.hit.document_id for candidate in fuse_rankings(rankings, method, k)]


def scores(rankings: Rankings, method: Method, k: float) -> dict[str, float]:
    return {one.hit.document_id: one.score for one in fuse_rankings(rankings, method, k)}


# Every example is tried with every method: drawing examples is what takes time.


@given(odd_branches, ks, st.randoms(use_true_random=False))
def test_the_order_of_the_branches_never_matters(rankings: Rankings, k: float, random: Random) -> None:
    shuffled = random.sample(rankings, len(rankings))
    for method in METHODS:
        both = fuse_rankings(shuffled, method, k), fuse_rankings(rankings, method, k)
        # Not as a whole: NaN, the raw score of a hit, equals nothing.
        for one, other in zip(*both, strict=True):
            assert (one.score, one.hit.document_id) == (other.score, other.hit.document_id), method.name
            assert [contribution for *_, contribution in one.entries] == [
                contribution for *_, contribution in other.entries
            ], method.name


def swapped(rankings: Rankings, data: st.DataObject) -> tuple[str, Rankings]:
    """A document, and the rankings in one of which it has changed places and scores with the document above it."""
    at = data.draw(st.sampled_from([at for at, one in enumerate(rankings) if len(one.ids) > 1]))
    ids, scores = list(rankings[at].ids), [one.score for one in rankings[at].hits]
    place = data.draw(st.integers(1, len(ids) - 1))
    ids[place - 1], ids[place] = ids[place], ids[place - 1]
    hits = tuple(hit(id_, score=score) for id_, score in zip(ids, scores, strict=True))
    changed = replace(rankings[at], ids=tuple(ids), hits=hits)
    return ids[place - 1], [*rankings[:at], changed, *rankings[at + 1 :]]


def raised(rankings: Rankings, data: st.DataObject) -> tuple[str, Rankings]:
    """A document, and the rankings in one of which it has a higher score, and the place that this score earns."""
    at = data.draw(st.sampled_from([at for at, one in enumerate(rankings) if one.ids]))
    scores = {one.document_id: one.score for one in rankings[at].hits}
    id_ = data.draw(st.sampled_from(rankings[at].ids))
    scores[id_] += data.draw(st.integers(1, 50))
    before = scored(rankings[at].name, scores)
    changed = replace(rankings[at], ids=before.ids, hits=before.hits)
    return id_, [*rankings[:at], changed, *rankings[at + 1 :]]


@given(swappable, ks, st.data())
def test_a_better_rank_never_lowers_a_score(rankings: Rankings, k: float, data: st.DataObject) -> None:
    document_id, other = swapped(rankings, data)
    for method in METHODS:
        before, after = scores(rankings, method, k), scores(other, method, k)
        assert after.get(document_id, 0) >= before.get(document_id, 0) * (1 - 1e-11), method.name


@pytest.mark.parametrize("changed", [swapped, raised])
@given(swappable, ks, st.data())
def test_a_better_rank_never_lowers_the_place_if_the_method_declares_that(
    changed: Change, rankings: Rankings, k: float, data: st.DataObject
) -> None:
    document_id, other = changed(rankings, data)
    for method in METHODS:
        if method.better_rank_never_lowers:
            before, after = order(rankings, method, k), order(other, method, k)
            assert (document_id in after) == (document_id in before), method.name
            if document_id in before:
                assert after.index(document_id) <= before.index(document_id), method.name


@pytest.mark.parametrize("name", ["dbsf", "z-score"])
def test_a_higher_score_may_lower_the_place_in_methods_that_divide_by_sigma(name: str) -> None:
    """The higher score of `a` makes sigma larger, and what the others are behind smaller."""
    other = scored("b", {"b": 10.0, "c": 1.0, "a": 0.0})
    method = BUILT_IN.method(name)
    before, after = (
        order([scored("bm25", {"a": lead, "c": 1.0, "b": 0.0}), other], method, 60) for lead in (5.0, 55.0)
    )
    assert not method.better_rank_never_lowers
    assert before.index("a") < after.index("a")


# A product below the smallest normal float loses digits.
@given(rankings_with(not_tiny), ks, st.sampled_from([0.125, 0.5, 2.0, 1024.0]))
def test_scaling_all_weights_keeps_the_order_if_the_method_declares_that(
    rankings: Rankings, k: float, factor: float
) -> None:
    scaled = [replace(one, weight=one.weight * factor) for one in rankings]
    for method in METHODS:
        if method.is_scale_free:
            assert order(scaled, method, k) == order(rankings, method, k), method.name


@given(odd_branches, ks)
def test_a_branch_of_weight_zero_changes_no_score(rankings: Rankings, k: float) -> None:
    silent = ranking("z", IDS[:4], weight=0.0, group="dense")
    for method in METHODS:
        assert scores([*rankings, silent], method, k) == scores(rankings, method, k), method.name


@given(odd_branches, ks)
def test_a_score_is_the_sum_of_its_finite_contributions_and_absence_earns_nothing(
    rankings: Rankings, k: float
) -> None:
    finders = {id_: sorted(one.name for one in rankings if id_ in one.ids) for id_ in IDS}
    for method in METHODS:
        assert method.absent == 0.0
        for candidate in fuse_rankings(rankings, method, k):
            names = sorted(one.name for one, _, _ in candidate.entries)
            assert names == finders[candidate.hit.document_id], method.name
            assert isfinite(candidate.score), method.name
            assert candidate.score == pytest.approx(
                fsum(contribution.weight * contribution.normalised for *_, contribution in candidate.entries)
            ), method.name


@given(odd_branches, ks)
def test_no_value_is_outside_the_declared_range_and_no_score_above_the_attainable_one(
    rankings: Rankings, k: float
) -> None:
    names = [one.name for one in rankings]
    for method in METHODS:
        for row, one in zip(method.contributions(rankings, k), rankings, strict=True):
            assert len(row) == len(one.ids), method.name
            assert all(0 <= contribution.normalised <= method.best(k) for contribution in row), method.name
            assert all(contribution.weight >= 0 for contribution in row), method.name
        if isfinite(method.best(k)):
            candidates = fuse_rankings(rankings, method, k)
            highest = attainable(rankings, names, method, k, candidates)
            assert all(one.score <= highest * (1 + 1e-11) for one in candidates), method.name


@methods
def test_the_values_of_a_single_hit_and_of_equal_hits_are_as_declared(method: Method) -> None:
    for k in (0.0, 1.0, 60.0):
        [row] = method.contributions([ranking("a", IDS[:1])], k)
        assert [contribution.normalised for contribution in row] == [method.single_hit(k)]
        [row] = method.contributions([ranking("a", IDS)], k)
        assert [contribution.normalised for contribution in row] == [
            method.all_equal(k, rank + 1) for rank in range(len(IDS))
        ]


@pytest.mark.parametrize("method", [one for one in BUILT_IN.methods.values() if one.uses_scores])
@pytest.mark.parametrize("broken", [nan, inf, -inf, 1e300])
def test_what_is_no_number_adds_nothing_and_changes_no_other_value(method: Method, broken: float) -> None:
    whole = scored("b", {"x": 3.0, "y": 2.0, "z": 1.0})
    with_broken = replace(whole, ids=("broken", *whole.ids), hits=(hit("broken", score=broken), *whole.hits))
    [values], [others] = method.contributions([whole], 60), method.contributions([with_broken], 60)
    assert [contribution.normalised for contribution in others] == [
        0.0,
        *(contribution.normalised for contribution in values),
    ]


@methods
def test_equal_scores_are_ordered_by_id(method: Method) -> None:
    rankings = [ranking("a", ["y", "x"], weight=0.3), ranking("b", ["x", "y"], weight=0.3)]
    assert order(rankings, method, 60) == ["x", "y"]
    assert order([], method, 60) == order([ranking("a", []), ranking("b", [], group="a")], method, 60) == []
