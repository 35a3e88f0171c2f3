"""nDCG@10 of rankings whose documents are judged in part, as trec_eval's `ndcg_cut_10`: the gain is the grade.  Pure.

An unjudged document has an unknown grade.  What it could change is told by values with another grade in its place, and by the
ends of a difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import fsum, log2

from judgements.feedback import HIGHEST_GRADE

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
    of_a, of_b = (dict(zip(ranking, DISCOUNTS, strict=False)) for ranking in (a, b))
    differences = {id_: of_b.get(id_, 0.0) - of_a.get(id_, 0.0) for id_ in of_a | of_b}
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
