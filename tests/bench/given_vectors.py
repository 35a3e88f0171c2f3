"""Synthetic passages and questions with given vectors, so that a corpus of any size needs no model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from math import inf

import numpy as np

from inference.backends import EMBEDDERS
from models.documents import Document, Matrix, Passage, Vector

BACKEND = "given"
EMBEDDERS[BACKEND] = f"{__name__}:GivenVectors"
DIMENSION = 384
TOPIC_PASSAGES = 50
"""Passages that share a topic: a word of the text, and a direction of the vector."""
WORDS, VOCABULARY = 60, 30_000


class GivenVectors:
    """An `inference.protocol.Embedder`: a text's vector is its topic's direction and a part of its own."""

    fingerprint = "given/1"
    comparable = ("given/1",)
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
        text = _text(number // TOPIC_PASSAGES, WORDS, seed=number)
        passage = Passage(f"d{number}#0", 0, text, start=0, end=len(text), vector=_vector(text))
        yield Document(f"d{number}", "growth", "", (passage,), revision="1", content_hash=f"{number:032x}")


def questions(count: int, size: int, *, seed: int) -> list[str]:
    """Distinct questions about the first `size` passages."""
    topics = np.random.default_rng(seed).integers(0, max(1, size // TOPIC_PASSAGES), count).tolist()
    return [
        f"{_text(topic, 8, seed=10**9 + seed + number)} q{seed}n{number}"
        for number, topic in enumerate(topics)
    ]


def _text(topic: int, words: int, *, seed: int) -> str:
    # Words are as unequal as those of a language: the second is half as frequent as the first (Zipf).
    ranks = np.random.default_rng(seed).zipf(1.3, words) % VOCABULARY
    return " ".join([f"topic{topic}", *(f"w{rank}" for rank in ranks.tolist())])
