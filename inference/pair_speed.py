"""How long pairs take on this machine just now, and so how many fit into a budget."""

from __future__ import annotations

from collections.abc import Sequence

HEADROOM = 0.8
"""Share of a budget that is planned for: what takes a little longer than it did is still not cut."""
FORGOTTEN_AFTER = 20
"""Runs without one of a length, after which what it took is not known any more."""


class PairSpeed:
    """Seconds a pair takes by its length: an exponentially weighted mean (EWMA) for each bucket of lengths.

    A bucket holds the lengths up to a power of two; its mean is kept for each word piece, since what a pair takes
    grows a little more than its length.  A bucket that was never measured is taken for its nearest neighbour, and so
    is one that was not measured lately: left out because it seemed slow, it would never be measured again.  When one
    becomes slower or faster the others go half the way with it (the root of its factor): a machine that is busy is
    so for all, and what is left of the way lets a wrong ratio between two of them be unlearned.
    """

    def __init__(self, *, weight: float = 0.3) -> None:
        """`weight` is that of the latest measurement: after seven, what was before counts a twelfth."""
        self._weight = weight
        self._piece_s: dict[int, float] = {}
        self._runs = 0
        self._last_run: dict[int, int] = {}

    def learn(self, length: int, pairs: int, took_s: float) -> None:
        """A run of `pairs`, each of `length` word pieces with its padding, took so long."""
        # A clock may not see the shortest run: never 0, which nothing would change any more.
        bucket, measured = length.bit_length(), max(took_s, 1e-6) / (length * pairs)
        before = self._piece_s.get(bucket, measured)
        factor = 1 + self._weight * (measured / before - 1)
        self._runs += 1
        self._last_run[bucket] = self._runs
        self._piece_s = {
            known: piece_s * factor**0.5
            for known, piece_s in self._piece_s.items()
            if self._runs - self._last_run[known] <= FORGOTTEN_AFTER
        }
        self._piece_s[bucket] = before * factor

    def expected_s(self, length: int) -> float:
        """Of one pair; 0 before anything was measured."""
        if not self._piece_s:
            return 0.0
        bucket = length.bit_length()
        return length * self._piece_s[min(self._piece_s, key=lambda known: (abs(known - bucket), -known))]

    def affordable(self, lengths: Sequence[int], limit_s: float) -> int:
        """How many of the pairs, from the first on, are expected to end within the limit.

        At least one: a model of which nothing more was asked could not show that it is fast again.
        """
        left_s = HEADROOM * limit_s
        for count, length in enumerate(lengths):
            left_s -= self.expected_s(length)
            if left_s < 0:
                return max(1, count)
        return len(lengths)
