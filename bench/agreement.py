"""How much two rankings of the same question agree."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

PERSISTENCE = 0.9
"""Of rank-biased overlap: the first ten documents then have 86 % of the weight."""


def overlap(one: Sequence[str], other: Sequence[str], depth: int) -> float:
    """The share of the first `depth` documents that both have, in whatever order; 1 where both are empty."""
    first, second = set(one[:depth]), set(other[:depth])
    return len(first & second) / max(len(first), len(second)) if first or second else 1.0


def rank_biased_overlap(one: Sequence[str], other: Sequence[str], persistence: float = PERSISTENCE) -> float:
    """Extrapolated rank-biased overlap (Webber, Moffat and Zobel, TOIS 2010, equation 32), from 0 to 1.

    Each ranking has a document once; the longer one counts down to the end of the shorter.  1 where both are empty.
    """
    if not one or not other:
        return float(not one and not other)
    depth = min(len(one), len(other))
    common, seen_one, seen_other, terms = 0, set[str](), set[str](), list[float]()
    for rank in range(1, depth + 1):
        document, counterpart = one[rank - 1], other[rank - 1]
        common += (document == counterpart) + (document in seen_other) + (counterpart in seen_one)
        seen_one.add(document)
        seen_other.add(counterpart)
        terms.append(common / rank * persistence**rank)
    return fsum(terms) * (1 - persistence) / persistence + common / depth * persistence**depth
