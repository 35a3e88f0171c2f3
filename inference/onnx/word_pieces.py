"""Texts as word pieces, the input of a model."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, normalizers

from inference.sentence_model import SentenceModel
from models.errors import ModelMissing, WrongDeclaration


class WordPieces:
    """The tokenizer of a model: one without a limit (to count, to split) and one cut to the model's limit."""

    def __init__(self, model: SentenceModel, *, max_pieces: int | None = None) -> None:
        """Raises ModelMissing (no readable tokenizer.json), WrongDeclaration (`max_pieces` above the model's limit)."""
        self.whole, self._cut = plain_tokenizer(model), plain_tokenizer(model)
        # Questions and passages both reserve room for the longer prompt, so a passage within the limit is never cut.
        reserved = self.whole.num_special_tokens_to_add(False) + max(map(self.count, model.prompts))
        largest = (model.positions or model.max_length) - reserved
        if max_pieces is not None and not 1 <= max_pieces <= largest:
            raise WrongDeclaration(
                f"max_pieces: {max_pieces}; the model in {model.folder} reads 1 to {largest} word pieces"
            )
        self.max_pieces = max_pieces or model.max_length - reserved
        """Word pieces of a text that the model reads, special tokens and prompt left out."""
        self.max_length = self.max_pieces + reserved
        self._cut.enable_truncation(self.max_length)

    def count(self, text: str) -> int:
        return len(self.whole.encode(whole_characters(text), add_special_tokens=False).ids)

    def read(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids with special tokens, cut to the model's limit."""
        # One by one: for several texts the tokenizer starts a thread for each core, and each thread keeps the memory of the
        # longest texts that it has read.  With 32 threads a worker grew by 140 MB, and grows by 13 MB this way.
        return [self._cut.encode_batch_fast([text])[0].ids for text in texts]


def plain_tokenizer(model: SentenceModel) -> Tokenizer:
    """The model's tokenizer, without the truncation and padding that its file declares.  Raises ModelMissing."""
    tokenizer = read_tokenizer(model.transformer / "tokenizer.json")
    if model.lower_case:
        steps = [normalizers.Lowercase()] + ([tokenizer.normalizer] if tokenizer.normalizer else [])
        tokenizer.normalizer = normalizers.Sequence(steps)
    return tokenizer


def read_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of a file, without truncation and padding.  Raises ModelMissing."""
    try:
        tokenizer = Tokenizer.from_str(path.read_text("utf-8"))
    # The tokenizers library raises a plain Exception for a file that it cannot read.
    except Exception as error:
        raise ModelMissing(f"{path} cannot be read: {error}") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def whole_characters(text: str) -> str:
    """Replace lone surrogates, which no tokenizer accepts, by question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def batches_by_length(lengths: Sequence[int], *, max_tokens: int) -> list[list[int]]:
    """Positions in batches, longest texts first; a padded batch has at most `max_tokens`, or holds a single text.

    A batch holds texts of similar length, so little time is spent on padding.
    """
    batches: list[list[int]] = []
    for position in sorted(range(len(lengths)), key=lambda at: (-lengths[at], at)):
        if batches and lengths[batches[-1][0]] * (len(batches[-1]) + 1) <= max_tokens:
            batches[-1].append(position)
        else:
            batches.append([position])
    return batches


def padded(
    rows: Sequence[Sequence[int]], *, padding_id: int = 0
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Ids, and a mask with 1 where there is no padding, both of shape (rows, longest row)."""
    ids = np.full((len(rows), max(map(len, rows))), padding_id, np.int32)
    mask = np.zeros_like(ids)
    for at, row in enumerate(rows):
        ids[at, : len(row)] = row
        mask[at, : len(row)] = 1
    return ids, mask


def estimated_pieces(text: str) -> int:
    """The number of words or a fourth of the bytes, whichever is more."""
    return max(len(text.split()), -(-len(text.encode("utf-8", "replace")) // 4))


def cut_to(max_pieces: int, text: str, count: Callable[[str], int] = estimated_pieces) -> str:
    """The longest beginning of the text with at most `max_pieces`."""
    if count(text) <= max_pieces:
        return text
    return text[: bisect_right(range(len(text)), max_pieces, key=lambda end: count(text[:end])) - 1]
