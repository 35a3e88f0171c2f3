"""CombMNZ and standard scores, each by hand."""

from collections.abc import Sequence
from statistics import mean, stdev

import pytest

from fusion.candidates import fuse_rankings
from fusion.methods import COMB_MNZ, z_score_values
from models.fusion_method import BranchRanking
from tests.unit.fusion.builders import scored

LEXICAL = scored("bm25", {"a": 10.0, "b": 5.0, "c": 0.0}, weight=0.5)
DENSE = scored("vector", {"b": 0.9, "a": 0.5}, weight=2.0)


def fused(rankings: Sequence[BranchRanking]) -> dict[str, float]:
    return {one.hit.document_id: one.score for one in fuse_rankings(rankings, COMB_MNZ, 60)}


def test_comb_mnz_counts_the_last_hit_too_but_neither_silent_branches_nor_completed_scores() -> None:
    """Its normalised score is 0, and it was still found."""
    silent = scored("silent", {"a": 1.0, "b": 0.5}, weight=0.0)
    completed = scored("hyde", {"b": 0.8, "a": 0.2}, found=1)
    scores = fused([LEXICAL, DENSE, silent, completed])
    assert scores["a"] == pytest.approx(2 * (0.5 * 1.0 + 0.0 + 0.0))
    assert scores["b"] == pytest.approx(3 * (0.5 * 0.5 + 2.0 * 1.0 + 1.0))


def test_standard_scores_are_counted_from_the_last_hit() -> None:
    scores = [10.0, 5.0, 0.0]
    standard = [(score - mean(scores)) / stdev(scores) for score in scores]
    assert z_score_values(scores) == pytest.approx([one - standard[-1] for one in standard])
    assert z_score_values([3.0, 3.0]) == [1.0, 1.0]
    assert z_score_values([]) == []
