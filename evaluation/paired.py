"""Whether one ranking is better than another on the same questions, by their paired differences.

The interval is the percentile interval of the bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap, 1993,
chapter 13; for retrieval: Sakai, SIGIR 2006).  The p-value is that of the randomization test, which flips the sign of each
difference by chance (Smucker, Allan and Carterette, CIKM 2007); with few differences it is the stricter of the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

CONFIDENCE = 0.95
_RESAMPLES = 10_000
_AT_ONCE = 250
"""Resamples in memory at the same time."""


@dataclass(frozen=True, slots=True)
class Gain:
    """The mean of the paired differences (new - old), and how sure it is."""

    mean: float
    low: float
    """Lower end of the 95 % interval of the mean."""
    high: float
    p: float
    """Two-sided: how often chance alone gives a mean at least as far from 0."""
    wins: int
    """Questions on which the new ranking is better."""
    losses: int
    questions: int

    @property
    def is_distinguishable(self) -> bool:
        """Whether both the interval and the p-value say that the two rankings differ."""
        return (self.low > 0 or self.high < 0) and self.p < 1 - CONFIDENCE

    @property
    def is_better(self) -> bool:
        return self.is_distinguishable and self.mean > 0

    def to_wire(self) -> dict[str, Any]:
        return {name: round(value, 4) for name, value in asdict(self).items()}


def paired_gain(new: Sequence[float], old: Sequence[float], *, seed: int = 0) -> Gain:
    """Compare the values of two rankings for the same questions (at least one) in the same order; the same seed gives the
    same result."""
    differences = np.asarray(new, dtype=np.float64) - np.asarray(old, dtype=np.float64)
    mean, count = float(differences.mean()), len(differences)
    rng = np.random.default_rng(seed)
    drawn, flipped = np.empty(_RESAMPLES), np.empty(_RESAMPLES)
    for start in range(0, _RESAMPLES, _AT_ONCE):
        shape = (min(_AT_ONCE, _RESAMPLES - start), count)
        drawn[start : start + shape[0]] = differences[rng.integers(0, count, shape)].mean(axis=1)
        flipped[start : start + shape[0]] = (
            (rng.integers(0, 2, shape, dtype=np.int8) * 2 - 1) @ differences / count
        )
    tail = (1 - CONFIDENCE) / 2
    low, high = (float(end) for end in np.quantile(drawn, (tail, 1 - tail)))
    # The differences as they are count as one of the resamples, so that p is never 0.
    as_far = int((np.abs(flipped) >= abs(mean) - 1e-12).sum())
    p = (1 + as_far) / (1 + _RESAMPLES)
    return Gain(mean, low, high, p, int((differences > 0).sum()), int((differences < 0).sum()), count)
