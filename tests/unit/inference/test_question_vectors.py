from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
import pytest

from inference.question_vectors import CachedQuestions
from models.documents import Matrix


class Letters:
    """An embedder whose vectors count the letters a, b and c, and which remembers what it was asked."""

    dimension = 3

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def embed_questions(self, texts: Sequence[str], *, timeout_s: float = inf) -> Matrix:
        self.asked.append(list(texts))
        return np.array([[text.count(letter) for letter in "abc"] for text in texts], np.float32)


def test_only_missing_questions_are_embedded_in_one_call() -> None:
    embedder = Letters()
    cached = CachedQuestions(embedder)
    assert cached.embed_questions([]).shape == (0, 3)
    cached.embed_questions(["aa", "b"])
    vectors = cached.embed_questions(["b", "abc", "aa", "cc\ud800", "abc"])
    assert vectors.tolist() == [[0, 1, 0], [1, 1, 1], [2, 0, 0], [0, 0, 2], [1, 1, 1]]
    assert embedder.asked == [["aa", "b"], ["abc", "cc\ud800"]]


def test_the_vectors_are_writable_and_changing_them_changes_nothing_stored() -> None:
    cached = CachedQuestions(Letters())
    cached.embed_questions(["a"])[:] = 9
    assert cached.embed_questions(["a"]).tolist() == [[1, 0, 0]]
    assert cached.embed_questions(["a"]).dtype == np.float32


def test_an_embedder_s_error_is_raised_and_nothing_is_stored() -> None:
    class Broken(Letters):
        def embed_questions(self, texts: Sequence[str], *, timeout_s: float = inf) -> Matrix:
            raise RuntimeError("no model")

    cached = CachedQuestions(Broken())
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no model"):
            cached.embed_questions(["a"])
