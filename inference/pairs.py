"""Pairs of question and passage: their word pieces, the input of a cross-encoder, and how many fit into a time budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from inference.sentence_model import SentenceModel
from inference.word_pieces import plain_tokenizer, whole_characters
from models.errors import NotConfigured

Pair = tuple[str, str]
"""A question and a passage."""


class PairRow(NamedTuple):
    ids: list[int]
    """Token ids, with special tokens."""
    segments: list[int]
    """The tokenizer's token types: usually 0 for the question's pieces, 1 for the passage's."""


class PairPieces:
    """The tokenizer of a cross-encoder.  A pair longer than `max_pieces` is cut, the longer text first."""

    def __init__(self, model: SentenceModel, *, max_pieces: int | None = None) -> None:
        """Raises ModelMissing (no readable tokenizer.json), NotConfigured (`max_pieces` above the model's limit)."""
        self._tokenizer = plain_tokenizer(model)
        largest = model.positions or model.max_length
        if max_pieces is not None and max_pieces > largest:
            raise NotConfigured(
                f"max_pieces: {max_pieces}; the reranker in {model.folder} reads at most {largest} word pieces"
            )
        self.max_pieces = max_pieces or model.max_length
        """Word pieces of question and passage together, special tokens included."""
        self._tokenizer.enable_truncation(self.max_pieces, strategy="longest_first")

    def read(self, pairs: Sequence[Pair]) -> list[PairRow]:
        whole = [(whole_characters(question), whole_characters(passage)) for question, passage in pairs]
        encodings = [
            self._tokenizer.encode_batch_fast([pair])[0] for pair in whole
        ]  # one by one, as WordPieces does
        return [PairRow(encoding.ids, encoding.type_ids) for encoding in encodings]


HEADROOM = 0.8
"""The share of a budget that is planned for; the rest absorbs small slowdowns."""
FORGOTTEN_AFTER = 20
"""A measurement is forgotten after this many runs without a pair of its length."""


class PairSpeed:
    """Seconds that a pair takes by its length: an exponentially weighted mean (EWMA) for each bucket of lengths.

    A bucket holds the lengths up to a power of two.  Its mean counts seconds per word piece, because a pair's time grows
    slightly faster than its length.  A bucket without a recent measurement takes the value of its nearest neighbour:
    a bucket that once seemed slow would otherwise never be tried, and never measured, again.  When one bucket becomes
    slower or faster by a factor, the others change by the factor's root: a busy machine slows all buckets, and the
    remaining difference corrects a wrong ratio between two of them.
    """

    def __init__(self, *, weight: float = 0.3) -> None:
        """`weight`: the weight of the latest measurement; after seven, earlier ones count for a twelfth."""
        self._weight = weight
        self._piece_s: dict[int, float] = {}
        self._runs = 0
        self._last_run: dict[int, int] = {}

    def learn(self, length: int, pairs: int, took_s: float) -> None:
        """Record that a run of `pairs`, each of `length` word pieces with padding, took `took_s` seconds."""
        # A coarse clock may measure 0, and a mean of 0 could never change again.
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
        """Expected seconds for one pair; 0 before the first measurement."""
        if not self._piece_s:
            return 0.0
        bucket = length.bit_length()
        return length * self._piece_s[min(self._piece_s, key=lambda known: (abs(known - bucket), -known))]

    def affordable(self, lengths: Sequence[int], limit_s: float) -> int:
        """How many pairs, counted from the first, are expected to end within the limit.

        At least one: otherwise a model that was slow once would never be measured again.
        """
        left_s = HEADROOM * limit_s
        for count, length in enumerate(lengths):
            left_s -= self.expected_s(length)
            if left_s < 0:
                return max(1, count)
        return len(lengths)
