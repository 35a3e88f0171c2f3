"""The paired bootstrap interval and the randomization test."""

from __future__ import annotations

import random

import pytest

from evaluation.judged.metrics import paired_gain


def test_a_gain_on_nearly_all_questions_is_better_and_a_loss_is_not() -> None:
    gain = paired_gain([0.6] * 40 + [0.4] * 2, [0.5] * 42)
    assert (gain.wins, gain.losses, gain.questions) == (40, 2, 42)
    assert gain.mean == pytest.approx((40 * 0.1 - 2 * 0.1) / 42)
    assert 0 < gain.low < gain.mean < gain.high
    assert gain.is_better
    loss = paired_gain([0.4] * 30, [0.5] * 30)
    assert (loss.is_distinguishable, loss.is_better) == (True, False)


def test_differences_by_chance_are_not_distinguishable() -> None:
    rng = random.Random(3)
    old = [rng.random() for _ in range(200)]
    gain = paired_gain([value + rng.gauss(0, 0.1) for value in old], old)
    assert gain.low < 0 < gain.high
    assert gain.p > 0.05


def test_four_wins_among_a_hundred_equal_questions_are_too_few() -> None:
    """Nearly every resample of the bootstrap has one of them; four coins that show heads are no surprise."""
    gain = paired_gain([1.0] * 4 + [0.5] * 96, [0.5] * 100)
    assert gain.p == pytest.approx(2 / 16, abs=0.02)
    assert not gain.is_distinguishable


def test_the_interval_covers_the_mean_about_as_often_as_it_says() -> None:
    rng = random.Random(5)
    covered = 0
    for _ in range(40):
        gain = paired_gain([rng.gauss(0.05, 0.2) for _ in range(60)], [0.0] * 60)
        covered += gain.low <= 0.05 <= gain.high
    assert covered >= 33


def test_equal_rankings_have_no_gain_and_the_same_seed_gives_the_same_result() -> None:
    gain = paired_gain([0.3, 0.7], [0.3, 0.7])
    assert (gain.mean, gain.low, gain.high, gain.p) == (0, 0, 0, 1)
    new, old = [0.1, 0.9, 0.4, 0.8], [0.2, 0.5, 0.4, 0.6]
    assert paired_gain(new, old, seed=7) == paired_gain(new, old, seed=7)
