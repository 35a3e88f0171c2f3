"""Question vectors moved towards passages: feedback from real ones, or hypothetical ones (HyDE)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from models.documents import Matrix, Vector


def feedback_vector(
    question: Vector, passages: Matrix, scores: Sequence[float], *, alpha: float = 0.6, count: int = 3
) -> Vector:
    """Pseudo-relevance feedback on vectors (Li et al., TOIS 2023): norm(a q + (1 - a) norm(sum w_i d_i)).

    `passages`, shape (n, d), are BM25's, each with its score there, which is its weight; the `count` best
    are taken.  `alpha` is the question's share: from .5 on it keeps at least half.  Without a passage the
    question itself comes back, normalised.
    """
    if len(passages) != len(scores):
        raise ValueError(f"{len(passages)} passages and {len(scores)} scores; there must be one for each")
    weights = np.asarray(scores, np.float32)
    best = np.argsort(-weights, kind="stable")[:count]
    return _normalised(
        alpha * _normalised(question) + (1 - alpha) * _normalised(weights[best] @ passages[best])
    )


def hypothesis_vector(question: Vector, documents: Matrix) -> Vector:
    """HyDE (Gao et al., 2022): the mean of the question and its hypothetical documents, normalised.

    `documents` has shape (n, d); both sides are given normalised.
    """
    return _normalised(question + documents.sum(axis=0))


def _normalised(vector: Vector) -> Vector:
    """At unit length; a vector of zeros stays as it is."""
    length = float(np.linalg.norm(vector))
    return np.asarray(vector / length if length > 0 else vector, np.float32)
