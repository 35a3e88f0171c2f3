"""Fitting probabilities, and how well they keep what they promise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.errors import ServiceError

Values = NDArray[np.float64]

BINS = 10
_PENALTY = 1e-5
_LEAST = 1e-6


@dataclass(frozen=True, slots=True)
class Bin:
    """The answers whose probability lies in [low, low + 1/BINS)."""

    low: float
    share: float
    """Of all answers."""
    promised: float
    """Mean probability."""
    kept: float
    """Share of the answers where it came true."""


def fit_product(
    signals: Values, log_top: Values, came_true: Values, weights: Values
) -> tuple[Values, Values]:
    """The factors of two logistic models whose product is the probability: (constant, signals …), and (constant, signals …,
    log_top).

    No factor but a constant is below 0: a better signal never lowers the probability.  Maximum likelihood by L-BFGS-B, with a
    small penalty that keeps the factors finite.  Raises ServiceError without SciPy.
    """
    try:
        from scipy.optimize import minimize  # type: ignore[import-untyped]
    except ImportError:
        raise ServiceError("SciPy is not installed; `make eval` or `pip install scipy` installs it") from None
    about = np.column_stack([np.ones(len(signals)), signals])
    found = np.column_stack([about, log_top])
    weights, width = weights / weights.sum(), about.shape[1]

    def loss(factors: Values) -> tuple[float, Values]:
        is_about, is_found = _logistic(about @ factors[:width]), _logistic(found @ factors[width:])
        said = np.clip(is_about * is_found, _LEAST, 1 - _LEAST)
        missed = -(weights * (came_true * np.log(said) + (1 - came_true) * np.log(1 - said))).sum()
        # d loss / d said x said, which both slopes share
        slope = weights * (said - came_true) / (1 - said)
        slopes = [about.T @ (slope * (1 - is_about)), found.T @ (slope * (1 - is_found))]
        return float(missed + _PENALTY * factors @ factors), np.concatenate(slopes) + 2 * _PENALTY * factors

    size = 2 * width + 1
    free = {0, width}
    bounds = [(None if place in free else 0.0, None) for place in range(size)]
    start = np.array([-5.0 if place == 0 else 0.0 if place == width else 1.0 for place in range(size)])
    factors: Values = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return factors[:width], factors[width:]


def product(about: Values, found: Values, signals: Values, log_top: Values) -> Values:
    """The probabilities that the factors of `fit_product` give."""
    columns = np.column_stack([np.ones(len(signals)), signals])
    return _logistic(columns @ about) * _logistic(np.column_stack([columns, log_top]) @ found)


def _logistic(values: Values) -> Values:
    shares: Values = 1 / (1 + np.exp(-np.clip(values, -500, 500)))
    return shares


def reliability_table(said: Values, came_true: Values, weights: Values) -> list[Bin]:
    """The bins that have answers, lowest first."""
    places = np.minimum((said * BINS).astype(int), BINS - 1)
    whole = weights.sum()
    return [
        Bin(
            place / BINS,
            float(weights[here].sum() / whole),
            float(np.average(said[here], weights=weights[here])),
            float(np.average(came_true[here], weights=weights[here])),
        )
        for place in range(BINS)
        if (here := places == place).any() and weights[here].sum() > 0
    ]


def calibration_error(table: Sequence[Bin]) -> float:
    """Expected calibration error (Naeini, Cooper and Hauskrecht, AAAI 2015): Σ share × |promised − kept|."""
    return sum(one.share * abs(one.promised - one.kept) for one in table)
