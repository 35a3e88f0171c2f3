"""The vectors that the branch `hyde` searches: a question moved towards real passages, or hypothetical ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from models.documents import Matrix, Vector


def feedback_vector(
    question: Vector, passages: Matrix, scores: Sequence[float], *, alpha: float = 0.6, count: int = 3
) -> Vector:
    """Pseudo-relevance feedback on vectors (Li et al., TOIS 2023): norm(a q + (1 - a) norm(sum w_i d_i)).

    `passages`, shape (n, d), are those that BM25 found; their weights are their BM25 `scores`, and only the `count` best
    are used.  `alpha` is the question's share.  Without passages the result is the normalised question.
    """
    weights = np.asarray(scores, np.float32)
    best = np.argsort(-weights, kind="stable")[:count]
    return _normalised(
        alpha * _normalised(question) + (1 - alpha) * _normalised(weights[best] @ passages[best])
    )


def hypothesis_vector(question: Vector, documents: Matrix) -> Vector:
    """HyDE (Gao et al., 2022): the mean of the question and its hypothetical documents, normalised.

    `documents` has shape (n, d); `question` and `documents` are normalised.
    """
    return _normalised(question + documents.sum(axis=0))


def _normalised(vector: Vector) -> Vector:
    """The vector at unit length; a vector of zeros is returned as it is."""
    length = float(np.linalg.norm(vector))
    return np.asarray(vector / length if length > 0 else vector, np.float32)
