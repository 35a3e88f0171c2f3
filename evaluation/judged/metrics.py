"""Measures of rankings by `ir-measures` (which runs trec_eval), and whether one ranking is better than another; nDCG@10 also here.

An unjudged document has an unknown grade.  Values with another grade in its place, and the ends of a difference, say what it could
change.

Both rankings are of the same questions.  The interval is the percentile interval of the bootstrap (Efron and Tibshirani, An Introduction to
the Bootstrap, 1993, chapter 13; for retrieval: Sakai, SIGIR 2006).  The p-value is that of the randomization test, which flips the
sign of each difference by chance (Smucker, Allan and Carterette, CIKM 2007); with few differences it is the stricter of the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from math import fsum, log2
from typing import Any

import numpy as np

from evaluation.judged.collection import Judgements
from models.errors import ServiceError
from records.judgements.feedback import HIGHEST_GRADE

MEASURES = {"ndcg@10": ("nDCG", 10), "recall@10": ("R", 10), "recall@100": ("R", 100), "mrr@10": ("RR", 10)}
"""`ir-measures`' name of a measure and its depth by our name."""


def measure(
    judgements: Judgements, rankings: Mapping[str, Sequence[str]], *, own: Set[str] = frozenset()
) -> dict[str, float]:
    """The mean of each measure over all judged questions; a question without a ranking counts as 0.

    `rankings`: document ids, best first, by question id.  `own`: see `without_itself`.  Raises ServiceError without
    `ir-measures`.
    """
    each = measure_each(judgements, rankings, own=own)
    return {name: fsum(values.values()) / max(1, len(values)) for name, values in each.items()}


def measure_each(
    judgements: Judgements, rankings: Mapping[str, Sequence[str]], *, own: Set[str] = frozenset()
) -> dict[str, dict[str, float]]:
    """The value of every judged question, by measure and question id; otherwise like `measure`."""
    try:
        import ir_measures
    except ImportError:
        raise ServiceError(
            "`ir-measures` is not installed; `make eval` or `pip install ir-measures` installs it"
        ) from None
    # `ir_measures.parse_measure` fails on Python 3.14.
    measures = {getattr(ir_measures, theirs) @ depth: name for name, (theirs, depth) in MEASURES.items()}
    # trec_eval sorts by score and breaks ties by id; the negated rank as score keeps our order.
    run = {
        question_id: {
            document_id: -float(rank)
            for rank, document_id in enumerate(without_itself(question_id, ranking, own), start=1)
        }
        for question_id, ranking in rankings.items()
    }
    grades = {question_id: dict(graded) for question_id, graded in judgements.items()}
    each = {name: dict.fromkeys(judgements, 0.0) for name in MEASURES}
    for result in ir_measures.iter_calc(list(measures), grades, run):
        each[measures[result.measure]][result.query_id] = float(result.value)
    return each


def without_itself(question_id: str, ranking: Sequence[str], own: Set[str]) -> list[str]:
    """The ranking without repetitions.

    A question that is in `own` is itself a document of the collection (`Collection.own`), which is left out.
    """
    itself = question_id if question_id in own else None
    return [document_id for document_id in dict.fromkeys(ranking) if document_id != itself]


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


DEPTH = 10
DISCOUNTS = tuple(1 / log2(rank + 1) for rank in range(1, DEPTH + 1))


def ndcg(ranking: Sequence[str], grades: Mapping[str, int], *, unjudged: int | None = 0) -> float:
    """0 if no document is relevant.

    `unjudged` is the grade of documents without one.  None leaves them out of the ranking, which moves those below up (condensed
    lists: Sakai, Alternatives to Bpref, SIGIR 2007).
    """
    if unjudged is None:
        ranking = [document_id for document_id in ranking if document_id in grades]
    first = [grades.get(document_id, unjudged or 0) for document_id in ranking[:DEPTH]]
    assumed = [unjudged or 0] * sum(document_id not in grades for document_id in ranking[:DEPTH])
    ideal = _dcg(sorted([*grades.values(), *assumed], reverse=True))
    return _dcg(first) / ideal if ideal else 0.0


def discount_differences(a: Sequence[str], b: Sequence[str]) -> dict[str, float]:
    """Of each document among the first ten of A or B that has another rank in B: its discount there less that in A."""
    discounts_a, discounts_b = (dict(zip(ranking, DISCOUNTS, strict=False)) for ranking in (a, b))
    differences = {
        id_: discounts_b.get(id_, 0.0) - discounts_a.get(id_, 0.0) for id_ in discounts_a | discounts_b
    }
    return {id_: difference for id_, difference in differences.items() if difference}


def difference_ends(a: Sequence[str], b: Sequence[str], grades: Mapping[str, int]) -> tuple[float, float]:
    """No grades of the unjudged documents give a difference of nDCG@10 (B - A) below the first or above the second number."""
    differences = discount_differences(a, b)
    known = fsum(grades[id_] * difference for id_, difference in differences.items() if id_ in grades)
    open_ = [difference for id_, difference in differences.items() if id_ not in grades]
    low = known + HIGHEST_GRADE * fsum(difference for difference in open_ if difference < 0)
    high = known + HIGHEST_GRADE * fsum(difference for difference in open_ if difference > 0)
    unjudged = {*a[:DEPTH], *b[:DEPTH]} - {*grades}
    smallest = _dcg(sorted(grades.values(), reverse=True))
    largest = _dcg(sorted([*grades.values(), *[HIGHEST_GRADE] * len(unjudged)], reverse=True))
    # An ideal that is as small as it can be makes a difference as large as it can be.
    return _ratio(low, smallest if low < 0 else largest), _ratio(high, smallest if high > 0 else largest)


def _ratio(difference: float, ideal: float) -> float:
    """Within -1 and 1, as every difference of nDCG is."""
    if not difference:
        return 0.0
    return max(-1.0, min(1.0, difference / ideal)) if ideal else 1.0 if difference > 0 else -1.0


def _dcg(gains: Iterable[int]) -> float:
    return fsum(max(0, gain) * discount for gain, discount in zip(gains, DISCOUNTS, strict=False))
