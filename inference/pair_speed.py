"""How long pairs take on this machine just now, and so how many fit into a budget."""

from __future__ import annotations

from collections.abc import Sequence

HEADROOM = 0.8
"""Share of a budget that is planned for: what takes a little longer than it did is still not cut."""


class PairSpeed:
    """Seconds a pair takes by its length: an exponentially weighted mean (EWMA) for each bucket of lengths.

    A bucket holds the lengths up to a power of two; its mean is kept for each word piece, since what a pair takes
    grows a little more than its length.  A bucket that was never measured is taken for its nearest neighbour.  When
    one becomes slower or faster the others go with it: a machine that is busy is so for all, and a bucket that is
    left out because it was slow would never be measured again.
    """

    def __init__(self, *, weight: float = 0.3) -> None:
        """`weight` is that of the latest measurement: after seven, what was before counts a twelfth."""
        self._weight = weight
        self._piece_s: dict[int, float] = {}

    def learn(self, length: int, pairs: int, took_s: float) -> None:
        """A run of `pairs`, each of `length` word pieces with its padding, took so long."""
        # A clock may not see the shortest run: never 0, which nothing would change any more.
        bucket, measured = length.bit_length(), max(took_s, 1e-6) / (length * pairs)
        before = self._piece_s.setdefault(bucket, measured)
        factor = 1 + self._weight * (measured / before - 1)
        self._piece_s = {known: factor * piece_s for known, piece_s in self._piece_s.items()}

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
