"""Synthetic passages and questions with vectors of their own, so that a corpus of any size needs no model.

Words, lengths and questions are distributed as the terms of texts are after analysis, without stop words; `docs/evidence/growth.md` compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from math import inf

import numpy as np
from numpy.typing import NDArray

from inference.backends import EMBEDDERS
from models.documents import Document, Matrix, Passage, Vector

BACKEND = "synthetic"
EMBEDDERS[BACKEND] = f"{__name__}:SyntheticEmbedder"
DIMENSION = 384
TOPIC_PASSAGES = 50
"""Passages that share a topic: a word of the text, and a direction of the vector."""
VOCABULARY = 30_000
WORDS, SPREAD, MOST_WORDS = 66, 0.6, 250
"""The median length of a passage, the standard deviation of the logarithm of lengths, and the longest one."""
QUESTION_WORDS = 8
_TOPIC_WORDS = 30
_TOPIC_SHARE, _QUESTION_TOPIC_SHARE = 0.3, 0.5
"""The shares of words that come from the topic's own."""
# A word's share of a text is inversely proportional to its rank plus 10 (Zipf and Mandelbrot): the first has one in 80.
_SHARES = np.cumsum(1 / np.arange(11, VOCABULARY + 11))
_LETTERS = "bcfghjkmpqvwxz"
"""No word of them has a stem, is a stop word, or reads as an identifier."""


class SyntheticEmbedder:
    """An `inference.protocol.Embedder`: a text's vector is its topic's direction and a part of its own."""

    fingerprint = "synthetic/1"
    comparable = ("synthetic/1",)
    dimension = DIMENSION
    max_pieces = 254
    knows_words = True

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def embed_questions(self, texts: Sequence[str], *, timeout_s: float = inf) -> Matrix:
        return np.array([_vector(text) for text in texts], np.float32).reshape(-1, DIMENSION)

    def embed_passages(
        self,
        texts: Sequence[str],
        *,
        progress: Callable[[int], None] | None = None,
        timeout_s: float = inf,
    ) -> Matrix:
        return self.embed_questions(texts)

    def count_pieces(self, text: str) -> int:
        return len(text.split())

    def warm(self) -> None:
        pass


def _vector(text: str) -> Vector:
    both = _direction(text.partition(" ")[0]) + _direction(text)
    return np.asarray(both / np.linalg.norm(both), np.float32)


def _direction(text: str) -> Vector:
    seed = int.from_bytes(blake2b(text.encode(), digest_size=8).digest())
    return np.random.default_rng(seed).standard_normal(DIMENSION, dtype=np.float32)


def passages(first: int, end: int) -> Iterator[Document]:
    """The documents of these numbers, each with one passage; always the same for a number."""
    for number in range(first, end):
        rng = np.random.default_rng(number)
        length = min(MOST_WORDS, 1 + int(WORDS * np.exp(rng.normal(0, SPREAD))))
        text = _text(number // TOPIC_PASSAGES, length, _TOPIC_SHARE, rng)
        passage = Passage(f"d{number}#0", 0, text, start=0, end=len(text), vector=_vector(text))
        yield Document(f"d{number}", "growth", "", (passage,), revision="1", content_hash=f"{number:032x}")


def questions(count: int, size: int, *, seed: int) -> list[str]:
    """Distinct questions about the first `size` passages."""
    rng = np.random.default_rng([1, seed])
    topics = rng.integers(0, max(1, size // TOPIC_PASSAGES), count).tolist()
    return [
        f"{_text(topic, QUESTION_WORDS, _QUESTION_TOPIC_SHARE, rng)} {_word(2, seed)}{_word(3, number)}"
        for number, topic in enumerate(topics)
    ]


def _text(topic: int, words: int, topic_share: float, rng: np.random.Generator) -> str:
    ranks = _ranks(words, rng)
    own = _ranks(_TOPIC_WORDS, np.random.default_rng([2, topic]))
    ranks = np.where(rng.random(words) < topic_share, rng.choice(own, words), ranks)
    return " ".join([_word(1, topic), *(_word(0, rank) for rank in ranks.tolist())])


def _ranks(count: int, rng: np.random.Generator) -> NDArray[np.intp]:
    ranks: NDArray[np.intp] = np.searchsorted(_SHARES, rng.random(count) * _SHARES[-1])
    return ranks


def _word(kind: int, number: int) -> str:
    """A word for each kind and number."""
    letters = "qwxz"[kind]
    while number:
        number, letter = divmod(number, len(_LETTERS))
        letters += _LETTERS[letter]
    return f"{letters}v"
