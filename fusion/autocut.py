"""Cuts a list of hits after its n-th jump in scores, as Weaviate's `autocut` does (entities/autocut/autocut.go).

Ranks and scores are scaled to 0-1: x = i / (n - 1), y = (first - score) / (first - last).  Where y - x has a local maximum,
the score has just fallen by more than the average step and then falls by less: a jump ends there.  The hits before it stay.
"""

from __future__ import annotations

from collections.abc import Sequence


def hits_before_jump(scores: Sequence[float], jumps: int) -> int:
    """How many of the falling `scores` stand before jump number `jumps`; all if there are fewer jumps."""
    count = len(scores)
    if count < 3 or scores[0] <= scores[-1]:
        return count
    span = scores[0] - scores[-1]
    # Rounded, so that equal steps are equal.
    excess = [
        round((scores[0] - score) / span - place / (count - 1), 9) for place, score in enumerate(scores)
    ]
    for place in range(1, count):
        # The last hit has no hit after it: it is compared with the two before it.
        beside = (excess[place - 1], excess[place + 1 if place < count - 1 else place - 2])
        if excess[place] > max(beside):
            jumps -= 1
            if not jumps:
                return place
    return count
