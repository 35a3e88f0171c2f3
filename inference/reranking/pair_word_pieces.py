"""Question and passage as one row of word pieces, the input of a cross-encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from inference.model_folder.sentence_model import SentenceModel
from inference.model_folder.word_pieces import plain_tokenizer, whole_characters
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
        read = [
            self._tokenizer.encode_batch_fast([pair])[0] for pair in whole
        ]  # one by one, as WordPieces does
        return [PairRow(one.ids, one.type_ids) for one in read]
