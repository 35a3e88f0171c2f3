"""Maximal marginal relevance against its formula, computed step by step."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fusion.page import diversified


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
def test_each_hit_has_the_highest_marginal_relevance_of_those_that_are_left(
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
