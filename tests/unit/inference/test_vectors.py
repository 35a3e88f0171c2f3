"""Vectors of feedback and of hypotheses, and the cache of question vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import inf

import numpy as np
import pytest

from inference.question_vectors import CachedQuestions
from inference.vectors import feedback_vector, hypothesis_vector
from models.documents import Matrix

X, Y, Z = np.eye(3, dtype=np.float32)
NONE = np.zeros((0, 3), np.float32)


def test_feedback_moves_the_question_towards_its_passages_by_their_scores() -> None:
    # The passages' share is (3 Y + 4 Z) / 5, so the sum is (.6, .4 * .6, .4 * .8), of length sqrt(.52).
    expected = np.array([0.6, 0.24, 0.32]) / math.sqrt(0.52)
    assert feedback_vector(X, np.stack([Y, Z]), [3.0, 4.0], alpha=0.6) == pytest.approx(expected, abs=1e-6)
    # The scale of the scores does not matter.
    assert feedback_vector(X, np.stack([Y, Z]), [0.3, 0.4], alpha=0.6) == pytest.approx(expected, abs=1e-6)


def test_only_the_best_passages_count_in_any_order() -> None:
    moved = feedback_vector(X, np.stack([Z, Y, Y, Y]), [1.0, 5.0, 5.0, 5.0], alpha=0.5, count=3)
    assert moved == pytest.approx((X + Y) / math.sqrt(2), abs=1e-6)


@pytest.mark.parametrize("alpha", [0.5, 0.6, 0.7])
def test_feedback_leaves_the_question_at_least_half_of_the_weight(alpha: float) -> None:
    moved = feedback_vector(X, np.stack([Y]), [9.0], alpha=alpha)
    assert moved @ X >= moved @ Y - 1e-6
    assert np.linalg.norm(moved) == pytest.approx(1, abs=1e-6)
    assert moved.dtype == np.float32


def test_a_hypothesis_is_the_mean_of_the_question_and_its_documents() -> None:
    # (X + Y + Z) / 3, normalised.
    assert hypothesis_vector(X, np.stack([Y, Z])) == pytest.approx(np.ones(3) / math.sqrt(3), abs=1e-6)
    assert hypothesis_vector(X, np.stack([Y, Y, Y])) == pytest.approx((X + 3 * Y) / math.sqrt(10), abs=1e-6)


def test_without_passages_scores_or_documents_the_question_stays_itself() -> None:
    assert feedback_vector(2 * X, NONE, []).tolist() == X.tolist()
    assert feedback_vector(X, np.stack([Y]), [0.0]).tolist() == X.tolist()
    assert hypothesis_vector(X, NONE).tolist() == X.tolist()


class Letters:
    """An embedder whose vectors count the letters a, b and c, and which remembers what it was asked."""

    dimension = 3

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def embed_questions(self, texts: Sequence[str], *, timeout_s: float = inf) -> Matrix:
        self.batches.append(list(texts))
        return np.array([[text.count(letter) for letter in "abc"] for text in texts], np.float32)


def test_only_missing_questions_are_embedded_in_one_call() -> None:
    embedder = Letters()
    cached = CachedQuestions(embedder)
    assert cached.embed_questions([]).shape == (0, 3)
    cached.embed_questions(["aa", "b"])
    vectors = cached.embed_questions(["b", "abc", "aa", "cc\ud800", "abc"])
    assert vectors.tolist() == [[0, 1, 0], [1, 1, 1], [2, 0, 0], [0, 0, 2], [1, 1, 1]]
    assert embedder.batches == [["aa", "b"], ["abc", "cc\ud800"]]


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
