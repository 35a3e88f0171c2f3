"""`min-max` fuses scores; the weight of a dense branch falls where its encoder does not know the language."""

from typing import Any

import pytest

from fusion.candidates import fuse_rankings
from fusion.fused_hits import FusedQuestion
from fusion.methods import MIN_MAX, min_max_values
from fusion.rankings import KNOWN_SHARE, LEAST_SHARE, reliability
from models.branch_result import BranchResult
from models.hits import Ranking
from tests.unit.fusion.builders import branch, fuse_question, ids, plan, request, scored

LEXICAL = branch("bm25", 0.35).model_copy(update={"floor": 0.0})
DENSE = branch("vector", 0.65)


def asked(
    lexical: dict[str, float], dense: dict[str, float], *, known_words: float | None = None, **options: Any
) -> FusedQuestion:
    found = {
        "bm25": Ranking(scored("bm25", lexical).hits),
        "vector": Ranking(scored("vector", dense).hits, known_words=known_words),
    }
    given = {name: BranchResult(name, "ok", rankings=(ranking,)) for name, ranking in found.items()}
    return fuse_question(plan([LEXICAL, DENSE], **{"method": "min-max", **options}), given, 0, request())


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
    known, unknown = (asked(lexical, dense, known_words=share) for share in (0.9, 0.0))
    assert (ids(known)[0], ids(unknown)[0]) == ("b", "a")
    for one in (*known.hits, *unknown.hits):
        assert one.score == pytest.approx(sum(by.weight * by.normalised for by in one.branches.values()))
    assert known.hits[0].branches["vector"].weight == 0.65
    assert unknown.hits[1].branches["vector"].weight == pytest.approx(0.65 * LEAST_SHARE)


def test_by_ranks_the_factor_counts_twice() -> None:
    """At half of KNOWN_SHARE it is 1/4, so by ranks 1/16."""
    fused = asked({"a": 9.0}, {"b": 0.5}, known_words=KNOWN_SHARE / 2, method="rrf")
    weights = {name: branch.weight for hit in fused.hits for name, branch in hit.branches.items()}
    assert weights == pytest.approx({"bm25": 0.35, "vector": 0.65 / 16})


@pytest.mark.parametrize(
    "options", [{"method": "elastic"}, {"method": "weaviate-relative"}, {"trust_vectors": True}]
)
def test_presets_and_a_configuration_that_trusts_vectors_keep_the_weights_as_declared(
    options: dict[str, Any],
) -> None:
    fused = asked({"a": 9.0}, {"b": 0.5}, known_words=0.0, **options)
    assert fused.hits[0].branches["vector"].weight == 0.65
