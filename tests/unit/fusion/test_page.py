"""Which hits a page shows: those before a jump in scores, unlike each other, and so many of each group."""

from __future__ import annotations

from typing import Any

import pytest
from chorale_client import InvalidRequest, make_request
from chorale_client.request import Grouping
from hypothesis import given
from hypothesis import strategies as st

from fusion.fused_hits import FusedHit, FusedQuestion
from fusion.page import diversified, grouped, hits_before_jump, page_of
from tests.unit.fusion.builders import branch, branch_results, fuse_question, hit, ids, plan, request, texts


@pytest.mark.parametrize(
    ("scores", "jumps", "count"),
    [
        # These figures follow by hand from the formula that Weaviate documents.
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
def test_the_hits_before_the_nth_jump_stay(scores: list[float], jumps: int, count: int) -> None:
    assert hits_before_jump(scores, jumps) == count


@given(st.lists(st.floats(0, 1), max_size=30), st.integers(1, 5))
def test_a_later_jump_keeps_more_and_the_best_hit_always_stays(scores: list[float], jumps: int) -> None:
    falling = sorted(scores, reverse=True)
    count = hits_before_jump(falling, jumps)
    assert min(1, len(falling)) <= count <= hits_before_jump(falling, jumps + 1) <= len(falling)


def fused(*scores: float) -> FusedQuestion:
    hits = [FusedHit(f"d{n}", f"d{n}#0", score, {}, {}, (), None, None) for n, score in enumerate(scores)]
    return FusedQuestion(tuple(hits), removed={"group_by": 1})


def test_pages_of_one_cut_have_no_hit_twice_and_the_count_is_that_of_the_hits_considered() -> None:
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


def test_a_copy_of_the_best_hit_gives_way_to_one_that_differs() -> None:
    # lambda .7: after the first, .7 x .9 - .3 x 1 = .33 against .7 x .5 - .3 x 0 = .35
    relevance, similarity = [1.0, 0.9, 0.5], [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    assert diversified(relevance, similarity, 0.3) == [0, 2, 1]
    assert diversified(relevance, similarity, 0.2) == [0, 1, 2]
    assert diversified(relevance, similarity, 1.0) == [0, 2, 1]
    assert diversified([], [], 0.5) == []


def test_a_tie_goes_to_the_hit_that_was_before_and_without_diversity_the_order_stays() -> None:
    alike = [[1.0] * 3] * 3
    assert diversified([1.0, 1.0, 1.0], alike, 0.5) == diversified([0.9, 0.5, 0.1], alike, 0.0) == [0, 1, 2]


COSINES = st.integers(-100, 100).map(lambda value: value / 100)


@given(st.data(), st.floats(0, 1))
def test_each_hit_has_the_highest_marginal_relevance_of_those_that_remain(
    data: st.DataObject, diversity: float
) -> None:
    count = data.draw(st.integers(1, 7))
    relevance = sorted(data.draw(st.lists(st.floats(0, 1), min_size=count, max_size=count)), reverse=True)
    rows = [[data.draw(COSINES) for _ in range(count)] for _ in range(count)]
    similarity = [[rows[min(a, b)][max(a, b)] for b in range(count)] for a in range(count)]
    order = diversified(relevance, similarity, diversity)
    assert sorted(order) == list(range(count))

    def marginal(place: int, before: list[int]) -> float:
        nearest = max((similarity[one][place] for one in before), default=0.0)
        return (1 - diversity) * relevance[place] - diversity * nearest

    for step, chosen in enumerate(order):
        before = order[:step]
        assert marginal(chosen, before) == max(marginal(place, before) for place in order[step:])


ONE = plan((branch("bm25"),))
SIX = [
    hit(name, source_type=kind)
    for name, kind in zip("abcdef", ["law", "law", "faq", "law", None, None], strict=True)
]


def fused_six(group_by: Any, hits: Any = SIX, **options: Any) -> FusedQuestion:
    return fuse_question(ONE, branch_results(bm25=hits), 0, request(group_by=group_by, **options))


@pytest.mark.parametrize(
    ("size", "remaining", "removed"), [(1, "acef", 2), (2, "abcef", 1), (3, "abcdef", 0)]
)
def test_each_group_keeps_its_best_hits_and_hits_without_a_group_stay(
    size: int, remaining: str, removed: int
) -> None:
    grouping = Grouping(field="source_type", size=size)
    one = grouped(fused_six(grouping, top_k=2), grouping, {})
    assert (ids(one), one.removed, one.warnings) == (list(remaining), {"group_by": removed}, ())
    # The page is filled from the other groups.
    assert ids(page_of(one, request(group_by=grouping, top_k=2, offset=1), ONE)) == list(remaining[1:3])


def test_passages_are_grouped_by_their_document() -> None:
    passages = fused_six("document", [hit("a"), hit("a", 1), hit("b"), hit("a", 2)], fuse_by="passage")
    hits = grouped(passages, Grouping(field="document", size=2), {}).hits
    assert [one.passage_id for one in hits] == ["a#0", "a#1", "b#0"]


@pytest.mark.parametrize("value", ["acme", 7, True, ["acme", "zenith"], {"name": "acme"}])
def test_any_value_of_the_metadata_makes_a_group(value: Any) -> None:
    known = {**texts("a", "b", customer=value), **texts("c", customer=None), **texts("d", customer="other")}
    assert ids(grouped(fused_six("customer"), Grouping(field="customer"), known)) == [
        "a",
        "c",
        "d",
        "e",
        "f",
    ]


def test_a_field_that_no_hit_has_is_named() -> None:
    one = grouped(fused_six("costumer"), Grouping(field="costumer"), {})
    assert (len(one.hits), one.warnings) == (6, ("group_by: no hit has the field 'costumer'",))
