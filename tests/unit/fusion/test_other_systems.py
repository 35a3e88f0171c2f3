"""Presets rank as the documented formulas of other systems do; each formula is worked out here by itself.

`ranx.json` has what ranx 0.3.21 gave for three examples: the package itself installs 675 MB, numba among them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.candidates import fuse_rankings
from fusion.methods import COMB_MNZ, z_score_values
from models.declarations.fusion_method import BranchRanking
from tasks.wiring.pipeline import BUILT_IN
from tests.unit.fusion.builders import branch, branch_results, fuse_question, hit, plan, request, scored

Lists = Mapping[str, Mapping[str, float]]
"""By branch, the scores of its documents, best first."""
Formula = Callable[[Sequence[float], int, float], float]
"""The scores of a branch, a place from 0, the weight of the branch -> what the place adds to the score."""

lists = st.dictionaries(
    st.sampled_from(["bm25", "vector", "hyde"]),
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 40).map(float), min_size=1),
    min_size=1,
).map(lambda drawn: {name: dict(sorted(one.items(), key=lambda o: -o[1])) for name, one in drawn.items()})
weights = st.fixed_dictionaries(
    {name: st.sampled_from([0.2, 0.5, 1.0, 3.0]) for name in ("bm25", "vector", "hyde")}
)


def ours(score_lists: Lists, weighted: Mapping[str, float], method: str, k: float = 10) -> dict[str, float]:
    """Scores by document, in the order of the answer.  A preset has a `k` of its own."""
    rankings = [scored(name, scores, weight=weighted[name]) for name, scores in score_lists.items()]
    return {one.hit.document_id: one.score for one in fuse_rankings(rankings, BUILT_IN.method(method), k)}


def theirs(score_lists: Lists, weighted: Mapping[str, float], formula: Formula) -> dict[str, float]:
    sums: dict[str, float] = {}
    for name, scores in score_lists.items():
        for place, id_ in enumerate(scores):
            sums[id_] = sums.get(id_, 0.0) + formula(list(scores.values()), place, weighted[name])
    return sums


def min_max(scores: Sequence[float], place: int, weight: float) -> float:
    low, high = min(scores), max(scores)
    return weight * (1.0 if low == high else (scores[place] - low) / (high - low))


def qdrant(scores: Sequence[float], place: int, weight: float) -> float:
    return 1 / ((place + 1) / weight + 2 - 1)


def qdrant_dbsf(scores: Sequence[float], place: int, weight: float) -> float:
    if len(scores) < 2 or not (sigma := stdev(scores)):
        return 0.5
    low, high = mean(scores) - 3 * sigma, mean(scores) + 3 * sigma
    return max(0.0, (scores[place] - low) / (high - low))


@pytest.mark.parametrize(
    ("method", "formula"),
    [
        ("paper", lambda scores, place, weight: 1 / (60 + place + 1)),
        ("elastic", lambda scores, place, weight: weight * (1 / (60 + place + 1))),
        ("elastic-linear", min_max),
        ("qdrant", qdrant),
        ("qdrant-dbsf", qdrant_dbsf),
        ("weaviate-ranked", lambda scores, place, weight: weight / (60 + place)),
        ("weaviate-relative", min_max),
        ("haystack", lambda scores, place, weight: weight / (61 + place)),
        ("nvidia", lambda scores, place, weight: weight / (10 + place + 1)),
        ("comb-sum", min_max),
    ],
)
@given(lists, weights)
def test_scores_are_those_of_the_systems_formula(
    method: str, formula: Formula, score_lists: Lists, weighted: Mapping[str, float]
) -> None:
    assert ours(score_lists, weighted, method) == pytest.approx(
        theirs(score_lists, weighted, formula), rel=1e-9
    )


@given(lists, weights)
def test_opensearch_takes_the_mean_over_all_weights_of_min_max_that_is_never_zero(
    score_lists: Lists, weighted: Mapping[str, float]
) -> None:
    def lifted(scores: Sequence[float], place: int, weight: float) -> float:
        return weight * (min_max(scores, place, 1.0) or 0.001)

    total = sum(weighted[name] for name in score_lists)
    means = {id_: score / total for id_, score in theirs(score_lists, weighted, lifted).items()}
    assert ours(score_lists, weighted, "opensearch") == pytest.approx(means, rel=1e-9)


@pytest.mark.parametrize("example", json.loads(Path(__file__).with_name("ranx.json").read_text()))
@pytest.mark.parametrize("method", ["comb-sum", "comb-mnz", "paper"])
def test_ranx_gives_the_same_scores(method: str, example: Mapping[str, Any]) -> None:
    scores = ours(example["lists"], dict.fromkeys(example["lists"], 1.0), method)
    assert scores == pytest.approx(example["scores"][method], rel=1e-9)


def test_late_fusion_counts_branches_and_divides_by_the_weights_of_what_found_the_document() -> None:
    def fused(**branches: tuple[str, float, float]) -> float:
        rankings = [
            scored(name, {"x": score}, group=group, weight=weight, kind="vector")
            for name, (group, weight, score) in branches.items()
        ]
        (one,) = fuse_rankings(rankings, BUILT_IN.method("late-fusion"), 60)
        return one.score

    assert fused(a=("dense", 0.3, 0.5)) == pytest.approx(0.5 * 1.2)
    assert fused(a=("dense", 0.3, 0.5), b=("dense", 0.1, 0.1)) == pytest.approx(0.4 * 1.4)
    assert fused(a=("dense", 0.3, 0.5), b=("graph", 0.0, 0.1)) == pytest.approx(0.5 * 1.2)
    six = {name: (name, 1.0, 0.4) for name in "abcdef"}
    assert fused(**six) == pytest.approx(0.4 * 2)


@pytest.mark.parametrize(("meaning", "words", "expected"), [(0.9, 0.88, 0.661), (0.8, 0.8, 0.588)])
def test_late_fusion_gives_the_scores_of_its_two_known_examples(
    meaning: float, words: float, expected: float
) -> None:
    rankings = scored("vector", {"x": meaning}, weight=0.4), scored("bm25", {"x": words}, weight=0.4)
    (one,) = fuse_rankings(rankings, BUILT_IN.method("late-fusion"), 60)
    assert one.score == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize(
    ("scores", "values"),
    [(None, [1.0, 0.88, 0.0]), ("bm25", [1.0, 0.88 / 20, 0.0]), ("rank", [1.0, 1 / 2, 1 / 3])],
)
def test_late_fusion_normalises_scores_of_http_as_the_branch_declares_them(
    scores: str | None, values: Sequence[float]
) -> None:
    other = branch("other", 0.4).model_copy(update={"kind": "http", "scores": scores})
    hits = [hit("a", score=37.0), hit("b", score=0.88), hit("c", score=0.0)]
    fused = fuse_question(plan([other], method="late-fusion"), branch_results(other=hits), 0, request())
    assert [one.branches["other"].normalised for one in fused.hits] == pytest.approx(values)


def test_tm2c2_measures_from_the_lowest_possible_score() -> None:
    lexical = scored("bm25", {"a": 10.0, "b": 5.0}, weight=0.4, floor=0.0)
    dense = scored("vector", {"b": 0.6, "a": 0.2}, weight=0.6)
    hits = fuse_rankings([lexical, dense], BUILT_IN.method("tm2c2"), 60)
    expected = {"a": 0.4 + 0.6 * 1.2 / 1.6, "b": 0.4 * 0.5 + 0.6}
    assert {one.hit.document_id: one.score for one in hits} == pytest.approx(expected)


def test_bounded_scores_do_not_depend_on_the_list() -> None:
    def values(*scores: float, half: float | None) -> list[float]:
        ranking = scored("bm25", {f"d{place}": score for place, score in enumerate(scores)}, half=half)
        [row] = BUILT_IN.method("bounded").contributions([ranking], 60)
        return [contribution.normalised for contribution in row]

    assert values(60.0, 20.0, 5.0, half=20.0) == pytest.approx([0.75, 0.5, 0.2])
    assert values(20.0, half=20.0) == [0.5]
    # Without a declared half the best score of the list takes its place.
    assert values(60.0, 20.0, half=None) == pytest.approx([0.5, 0.25])
    assert values(-0.5, half=20.0) == [0.0]


@pytest.mark.parametrize(("method", "score"), [("late-fusion", 1.2 * 10 / 20), ("bounded", 10 / (10 + 30))])
def test_a_plan_has_the_kind_of_a_branch_and_its_half(method: str, score: float) -> None:
    words = branch("words", 1.0).model_copy(update={"kind": "bm25", "half": 30.0})
    fused = fuse_question(
        plan([words], method=method), branch_results(words=[hit("a", score=10.0)]), 0, request()
    )
    assert fused.hits[0].score == pytest.approx(score)


BY_WORDS = scored("bm25", {"a": 10.0, "b": 5.0, "c": 0.0}, weight=0.5)
BY_VECTORS = scored("vector", {"b": 0.9, "a": 0.5}, weight=2.0)


def comb_mnz(rankings: Sequence[BranchRanking]) -> dict[str, float]:
    return {one.hit.document_id: one.score for one in fuse_rankings(rankings, COMB_MNZ, 60)}


def test_comb_mnz_counts_the_last_hit_too_but_neither_silent_branches_nor_completed_scores() -> None:
    """Its normalised score is 0, and it was still found."""
    silent = scored("silent", {"a": 1.0, "b": 0.5}, weight=0.0)
    completed = scored("hyde", {"b": 0.8, "a": 0.2}, n_retrieved=1)
    scores = comb_mnz([BY_WORDS, BY_VECTORS, silent, completed])
    assert scores["a"] == pytest.approx(2 * (0.5 * 1.0 + 0.0 + 0.0))
    assert scores["b"] == pytest.approx(3 * (0.5 * 0.5 + 2.0 * 1.0 + 1.0))


def test_standard_scores_are_counted_from_the_last_hit() -> None:
    scores = [10.0, 5.0, 0.0]
    standard = [(score - mean(scores)) / stdev(scores) for score in scores]
    assert z_score_values(scores) == pytest.approx([one - standard[-1] for one in standard])
    assert z_score_values([3.0, 3.0]) == [1.0, 1.0]
    assert z_score_values([]) == []
