"""Recorded lists fused with another weight, k, depth or deadline."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from evaluation.recorded.fusion_changes import FusionChanges, fused_with, smallest_swap
from evaluation.recorded.request import RecordedRequest
from fusion.fused_hits import FusedHit
from models.errors import ServiceError
from tests.unit.evaluation.recorded import PIPELINE, record


def fused(recorded: RecordedRequest, changes: FusionChanges) -> Sequence[FusedHit]:
    return fused_with(recorded, recorded.plan, changes, 0)


def order(changes: FusionChanges, **recorded: object) -> list[str]:
    return [hit.document_id for hit in fused(record(**recorded), changes)]  # type: ignore[arg-type]


def test_without_changes_the_fusion_is_the_recorded_one() -> None:
    hits = fused(record(), FusionChanges())
    # The ranks of `both` are 2, 1 and 2.
    assert [hit.document_id for hit in hits] == ["both", "near", "exact", "far"]
    assert hits[0].score == pytest.approx(0.3 / 62 + 0.4 / 61 + 0.3 / 62)


def test_a_weight_changes_the_order_and_the_other_weights_stay() -> None:
    hits = fused(record(), FusionChanges(weights={"bm25": 2.0}))
    assert [hit.document_id for hit in hits] == ["both", "exact", "far", "near"]
    assert hits[1].score == pytest.approx(2.0 / 61 + 0.4 / 63)


def test_another_k_changes_the_scores() -> None:
    hits = fused(record(), FusionChanges(k=0))[:3]
    assert [hit.document_id for hit in hits] == ["both", "near", "exact"]
    scores = [0.3 / 2 + 0.4 / 1 + 0.3 / 2, 0.4 / 2 + 0.3 / 1, 0.3 / 1 + 0.4 / 3]
    assert [hit.score for hit in hits] == pytest.approx(scores)


def test_a_smaller_depth_leaves_the_first_documents_of_each_branch() -> None:
    # Each branch has its first document alone; .3 / 61 twice is a tie, which the ids decide.
    assert order(FusionChanges(depth=1)) == ["both", "exact", "near"]


def test_a_branch_that_reported_after_the_deadline_is_left_out() -> None:
    times = {"bm25": 20.0, "vector": 90.0, "hyde": 150.0}
    assert order(FusionChanges(deadline_ms=150.0), reported_ms=times)[1] == "near"
    # Without hyde: near .4 / 62, exact .3 / 61 + .4 / 63.
    assert order(FusionChanges(deadline_ms=149.0), reported_ms=times)[1] == "exact"
    assert order(FusionChanges(deadline_ms=20.0), reported_ms=times) == ["exact", "both", "far"]
    assert order(FusionChanges(deadline_ms=19.0), reported_ms=times) == []


def test_the_smallest_change_of_a_weight_makes_the_second_hit_the_first() -> None:
    recorded = record({"bm25": ("a", "b"), "vector": ("b", "a"), "hyde": ("a", "b")})
    hits = fused(recorded, FusionChanges())
    assert [hit.document_id for hit in hits] == ["a", "b"]
    swap = smallest_swap(recorded, recorded.plan, FusionChanges(), 0, hits)
    # a has .6 / 61 + .4 / 62, b has .6 / 62 + .4 / 61: equal if the weight of vector is .6, or if that of bm25 or hyde is .1.
    # .4 to .6 changes the weight by a half, .3 to .1 by two thirds.
    assert swap is not None
    assert (swap.branch, swap.before) == ("vector", 0.4)
    assert swap.after == pytest.approx(0.6, abs=0.001)
    changed = fused(recorded, FusionChanges(weights={swap.branch: swap.after}))
    assert changed[0].document_id == "b"


def test_no_single_weight_swaps_hits_that_every_branch_has_in_the_same_order() -> None:
    recorded = record({"bm25": ("a", "b"), "vector": ("a", "b"), "hyde": ("a", "b")})
    assert (
        smallest_swap(recorded, recorded.plan, FusionChanges(), 0, fused(recorded, FusionChanges())) is None
    )


@pytest.mark.parametrize(
    ("weights", "error"),
    [
        ({"graph": 1.0}, "weights: no branch 'graph'; there are: bm25, vector, hyde"),
        (
            {"bm25": 0.0, "vector": 0.0, "hyde": 0.0},
            "weights: every weight is 0; at least one must be above 0",
        ),
    ],
)
def test_wrong_weights_are_refused_by_name(weights: dict[str, float], error: str) -> None:
    with pytest.raises(ServiceError, match=error):
        fused(record(), FusionChanges(weights=weights))
    with pytest.raises(ServiceError, match=error):
        FusionChanges(weights=weights).configuration(PIPELINE, "rrf", "own")


def test_changes_make_a_configuration_with_every_weight_of_its_base() -> None:
    own = FusionChanges(weights={"bm25": 0.9}, k=7.0).configuration(PIPELINE, "rrf-grouped", "own")
    assert (own.name, own.method, own.k) == ("own", "rrf-grouped", 7.0)
    assert own.weights == {"bm25": 0.9, "vector": 0.4, "hyde": 0.3}
    unweighted = FusionChanges(k=7.0).configuration(PIPELINE, "rrf-two", "own")
    assert unweighted.weights == {"bm25": 0.5, "vector": 0.5}
