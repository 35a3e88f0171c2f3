"""Measures of rankings by `ir-measures` (which runs trec_eval), and whether one ranking is better than another.

Both are of the same questions.  The interval is the percentile interval of the bootstrap (Efron and Tibshirani, An Introduction to
the Bootstrap, 1993, chapter 13; for retrieval: Sakai, SIGIR 2006).  The p-value is that of the randomization test, which flips the
sign of each difference by chance (Smucker, Allan and Carterette, CIKM 2007); with few differences it is the stricter of the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import fsum
from typing import Any

import numpy as np

from evaluation.collection import Judgements
from models.errors import ServiceError

MEASURES = {"ndcg@10": "nDCG@10", "recall@10": "R@10", "recall@100": "R@100", "mrr@10": "RR@10"}
"""`ir-measures`' name of a measure by ours."""


def measure(judgements: Judgements, rankings: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """The mean of each measure over all judged questions; a question without a ranking counts as 0.

    `rankings`: document ids, best first, by question id.  A document with the id of the question is the question itself
    (ArguAna) and is left out.  Raises ServiceError without `ir-measures`.
    """
    each = measure_each(judgements, rankings)
    return {name: fsum(values.values()) / max(1, len(values)) for name, values in each.items()}


def measure_each(
    judgements: Judgements, rankings: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, float]]:
    """The value of every judged question, by measure and question id; otherwise like `measure`."""
    try:
        import ir_measures
    except ImportError:
        raise ServiceError(
            "`ir-measures` is not installed; `make eval` or `pip install ir-measures` installs it"
        ) from None
    measures = {ir_measures.parse_measure(theirs): name for name, theirs in MEASURES.items()}
    # trec_eval sorts by score and breaks ties by id; the negated rank as score keeps our order.
    run = {
        question_id: {
            document_id: -float(rank)
            for rank, document_id in enumerate(without_itself(question_id, ranking), start=1)
        }
        for question_id, ranking in rankings.items()
    }
    grades = {question_id: dict(graded) for question_id, graded in judgements.items()}
    each = {name: dict.fromkeys(judgements, 0.0) for name in MEASURES}
    for result in ir_measures.iter_calc(list(measures), grades, run):
        each[measures[result.measure]][result.query_id] = float(result.value)
    return each


def without_itself(question_id: str, ranking: Sequence[str]) -> list[str]:
    """The ranking without the question's own document and without repetitions."""
    return [document_id for document_id in dict.fromkeys(ranking) if document_id != question_id]


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
