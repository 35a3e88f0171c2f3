"""Maximal marginal relevance: each next hit is relevant, and unlike the hits before it (Carbonell and Goldstein, SIGIR 1998).

The next hit is the one with the highest `lambda x relevance - (1 - lambda) x highest similarity to a hit before it`, with
lambda = 1 - `diversity`.  Relevance is the score, by min-max over the pool; similarity is the cosine of the passages.
"""

from __future__ import annotations

from collections.abc import Sequence

POOL = 50
"""Hits that are compared; the others follow in their order."""


def diversified(
    relevance: Sequence[float], similarity: Sequence[Sequence[float]], diversity: float
) -> list[int]:
    """The places of the hits in their new order.  `similarity` is symmetric; a tie goes to the hit that was before."""
    nearest: list[float] = [0.0] * len(relevance)
    left, order = list(range(len(relevance))), list[int]()
    while left:
        chosen = max(
            left, key=lambda place: ((1 - diversity) * relevance[place] - diversity * nearest[place], -place)
        )
        left.remove(chosen)
        for place in left:
            found = similarity[chosen][place]
            nearest[place] = max(nearest[place], found) if order else found
        order.append(chosen)
    return order
