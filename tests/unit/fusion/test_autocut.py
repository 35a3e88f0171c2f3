"""Cutting after the n-th jump in scores."""

from __future__ import annotations

from typing import Any

import pytest
from chorale_client import InvalidRequest, make_request
from hypothesis import given
from hypothesis import strategies as st

from fusion.fused_hits import FusedHit, FusedQuestion
from fusion.page import hits_before_jump, page_of
from tests.unit.fusion.builders import ids, plan


@pytest.mark.parametrize(
    ("scores", "jumps", "kept"),
    [
        # Worked out by hand from the formula that Weaviate documents.
        ([9.0, 8.8, 8.6, 2.0, 1.8, 1.6, 0.0], 1, 3),
        ([9.0, 8.8, 8.6, 2.0, 1.8, 1.6, -4.0], 2, 6),
        ([5.0, 1.0, 0.9, 0.8, 0.7], 1, 1),
        ([10.0, 9.9, 5.0, 4.9, 0.1, 0.0], 1, 2),
        ([10.0, 9.9, 5.0, 4.9, 0.1, 0.0], 2, 4),
        ([10.0, 9.9, 5.0, 4.9, 0.1, 0.0], 3, 6),
        # Nothing that stands out.
        ([5.0, 4.0, 3.0, 2.0, 1.0], 1, 5),
        ([0.5, 0.5, 0.5], 1, 3),
        ([0.3, 0.2, 0.1], 1, 3),
        ([1.0, 0.1], 1, 2),
        ([1.0], 1, 1),
        ([], 1, 0),
    ],
)
def test_the_hits_before_the_nth_jump_stay(scores: list[float], jumps: int, kept: int) -> None:
    assert hits_before_jump(scores, jumps) == kept


@given(st.lists(st.floats(0, 1), max_size=30), st.integers(1, 5))
def test_a_later_jump_keeps_more_and_the_best_hit_always_stays(scores: list[float], jumps: int) -> None:
    falling = sorted(scores, reverse=True)
    kept = hits_before_jump(falling, jumps)
    assert min(1, len(falling)) <= kept <= hits_before_jump(falling, jumps + 1) <= len(falling)


def fused(*scores: float) -> FusedQuestion:
    hits = [FusedHit(f"d{n}", f"d{n}#0", score, {}, {}, (), None, None) for n, score in enumerate(scores)]
    return FusedQuestion(tuple(hits), removed={"group_by": 1})


def test_pages_of_one_cut_have_no_hit_twice_and_the_count_is_that_of_the_hits_looked_at() -> None:
    def page(**options: Any) -> FusedQuestion:
        return page_of(fused(9, 8.8, 8.6, 2, 1.8, 1.6, 0), make_request("q", **options), plan())

    first, after = page(top_k=7, autocut=1), page(offset=2, top_k=5, autocut=1)
    assert (ids(first), first.removed) == (["d0", "d1", "d2"], {"group_by": 1, "autocut": 4})
    assert (ids(after), after.removed["autocut"]) == (["d2"], 4)
    assert "autocut" not in page(top_k=7).removed


def test_autocut_needs_scores_that_fall() -> None:
    with pytest.raises(InvalidRequest, match="autocut: needs hits ordered by score, and diversity orders"):
        make_request("q", autocut=1, diversity=0.3)
    make_request("q", autocut=1, diversity=0.0)
    with pytest.raises(InvalidRequest, match="autocut"):
        make_request("q", autocut=0)
