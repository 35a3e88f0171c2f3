"""The order of fused scores, and their boosts by authority and recency."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.candidates import (
    best_first,
    boost_factors,
    bounded_order,
    read_moment,
    recency_factor,
    rounded,
    significant,
)
from models.boost_plan import BoostPlan

NOW = datetime(2026, 1, 1, tzinfo=UTC)
YEAR = BoostPlan(recency_amount=0.5, recency_half_life_days=365)


@pytest.mark.parametrize(
    ("date", "halving", "step"),
    [
        ("2026-01-01", 1.5, 1.5),
        ("2026-01-01T00:00:01", 1.0, 1.0),
        ("2030-05-05T10:00:00+02:00", 1.0, 1.0),
        ("2025-01-01", 1.25, 1.5),
        ("2024-12-31", 1.0 + 0.5 * 2 ** (-366 / 365), 1.0),
        ("2024-01-02", 1.125, 1.0),
    ],
    ids=["today", "a second later", "in the future", "one half-life", "a day more", "two half-lives"],
)
def test_recency_halves_with_every_half_life_or_ends_as_a_step_after_one(
    date: str, halving: float, step: float
) -> None:
    assert recency_factor(YEAR, date, NOW) == pytest.approx(halving)
    assert recency_factor(YEAR.model_copy(update={"recency_step": True}), date, NOW) == step


@pytest.mark.parametrize(
    ("date", "days", "moment", "counts"),
    [
        ("2025-11-24", 365, "2026-11-24T23:59:59", True),
        ("2025-11-23", 365, "2026-11-24T00:00:00", False),
        ("2024-02-29", 365, "2025-02-28T12:00:00", True),
        ("2024-02-29", 365, "2025-03-01T00:00:00", False),
        ("2023-06-01", 730, "2025-06-01T12:00:00", True),
        ("2026-01-01", 30, "2026-01-31T12:00:00", True),
        ("2026-01-01", 30, "2026-02-01T00:00:00", False),
        ("2024-12-02", 395, "2026-01-01T12:00:00", True),
    ],
)
def test_a_step_ends_after_so_many_years_of_the_calendar_and_days_whatever_the_time(
    date: str, days: int, moment: str, counts: bool
) -> None:
    boosts = BoostPlan(recency_amount=0.5, recency_half_life_days=days, recency_step=True)
    now = datetime.fromisoformat(moment).replace(tzinfo=UTC)
    assert recency_factor(boosts, date, now) == (1.5 if counts else 1.0)


@pytest.mark.parametrize("date", [None, "", "soon", "31/12/2025", "2025-13-01", "9" * 5_000, "\x00"])
def test_an_unknown_or_unreadable_date_gives_no_boost(date: str | None) -> None:
    assert boost_factors(YEAR, None, date, NOW) == {}


@pytest.mark.parametrize("date", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"])
def test_the_first_and_last_dates_of_the_calendar_are_accepted(date: str | None) -> None:
    assert 1.0 <= recency_factor(YEAR, date, NOW) <= 1.5


def test_factors_are_listed_by_name_and_factors_of_one_are_left_out() -> None:
    boosts = BoostPlan(authority={"legge": 1.3, "faq": 1.0}, recency_amount=0.5)
    assert boost_factors(boosts, "legge", "2026-01-01", NOW) == {"authority": 1.3, "recency": 1.5}
    for kind in ("faq", "blog"):
        assert boost_factors(boosts, kind, None, NOW) == {}


def test_a_moment_without_a_zone_is_utc_and_a_bare_date_begins_its_day() -> None:
    assert read_moment("2025-06-01T12:00:00") == datetime(2025, 6, 1, 12, tzinfo=UTC)
    assert read_moment("2025-06-01") == datetime(2025, 6, 1, tzinfo=UTC)
    assert read_moment("2025-06-01T12:00:00+02:00") == datetime(2025, 6, 1, 10, tzinfo=UTC)


RRF_LIST = [1 / (60 + rank) for rank in range(1, 101)]


def test_a_factor_of_one_and_a_half_lifts_rank_31_to_the_top_and_with_a_bound_five_places() -> None:
    factors = [1.5 if rank == 31 else 1.0 for rank in range(1, 101)]
    assert 1.5 / 91 > 1 / 61
    assert bounded_order(RRF_LIST, factors, None)[0][0] == 30
    order = bounded_order(RRF_LIST, factors, 5)
    assert [before + 1 for before, _, _ in order][24:28] == [25, 31, 26, 27]
    _, score, bound = order[25]
    assert score == pytest.approx(1 / 85)
    assert bound == pytest.approx((1 / 85) / (1.5 / 91))


Rows = tuple[list[float], list[float]]

scored = st.lists(
    st.tuples(st.floats(1e-4, 1), st.sampled_from([0.5, 0.95, 1.0, 1.0, 1.1, 1.3, 1.5, 4.0])), max_size=40
).map(lambda rows: (sorted((score for score, _ in rows), reverse=True), [factor for _, factor in rows]))
bounds = st.one_of(st.none(), st.integers(0, 12))


@given(scored, bounds)
def test_scores_fall_and_no_hit_rises_more_than_max_places(rows: Rows, max_places: int | None) -> None:
    """Each score is the fused score times the factors and the bound.  Without a bound the boosted scores give the order."""
    scores, factors = rows
    order = bounded_order(scores, factors, max_places)
    assert sorted(before for before, _, _ in order) == list(range(len(scores)))
    final = [score for _, score, _ in order]
    assert final == sorted(final, reverse=True)
    for place, (before, score, bound) in enumerate(order):
        assert max_places is None or before - place <= max_places
        assert bound == 1 if max_places is None else bound <= 1
        assert score == pytest.approx(scores[before] * factors[before] * bound, rel=1e-11)
    unboosted = bounded_order(scores, [1.0] * len(scores), max_places)
    assert [(before, bound) for before, _, bound in unboosted] == [(at, 1.0) for at in range(len(scores))]


@given(scored.filter(lambda rows: rows[0]), bounds, st.data())
def test_a_larger_factor_never_puts_a_hit_lower(
    rows: Rows, max_places: int | None, data: st.DataObject
) -> None:
    scores, factors = rows
    chosen = data.draw(st.integers(0, len(scores) - 1))
    raised = [factor * 1.7 if at == chosen else factor for at, factor in enumerate(factors)]

    def place(boosts: list[float]) -> int:
        return [before for before, _, _ in bounded_order(scores, boosts, max_places)].index(chosen)

    assert place(raised) <= place(factors)


positive = st.floats(1e-9, 1e6)


def test_scores_that_differ_only_by_float_rounding_are_equal_and_those_of_eleven_digits_are_not() -> None:
    tenths = 0.1 + 0.2
    assert tenths != 0.3
    assert best_first({"b": 0.3, "a": tenths}) == [("a", rounded([0.3])[0]), ("b", rounded([0.3])[0])]
    assert [id_ for id_, _ in best_first({"a": 1.0, "b": 1.00000000002})] == ["b", "a"]


@given(positive)
def test_rounding_keeps_twelve_digits(score: float) -> None:
    [once] = rounded([score])
    assert abs(once - score) <= score * 2**-40
    assert rounded([once]) == [once]


@given(st.lists(positive))
def test_rounded_scores_fall_in_the_same_order(scores: list[float]) -> None:
    ordered = best_first({f"{number:03}": score for number, score in enumerate(scores)})
    twelve_digits = [significant(score) for _, score in ordered]
    assert twelve_digits == sorted(twelve_digits, reverse=True)
