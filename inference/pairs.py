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
WEIGHT = 0.3
"""The weight of the latest measurement; after seven, earlier ones count for a twelfth."""


class PairSpeed:
    """Seconds that a word piece takes: an exponentially weighted mean (EWMA) of the measured runs."""

    def __init__(self) -> None:
        self._piece_s: float | None = None

    def learn(self, length: int, pairs: int, took_s: float) -> None:
        """Record that a run of `pairs`, each of `length` word pieces with padding, took `took_s` seconds."""
        # A coarse clock may measure 0, and then every pair would seem to fit.
        measured_s = max(took_s, 1e-6) / (length * pairs)
        before_s = measured_s if self._piece_s is None else self._piece_s
        self._piece_s = before_s + WEIGHT * (measured_s - before_s)

    def expected_s(self, length: int) -> float:
        """Expected seconds for one pair; 0 before the first measurement."""
        return length * (self._piece_s or 0.0)

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
