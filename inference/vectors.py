"""Arithmetic on vectors: tokens become the vector of a text, and a question moves towards passages or hypothetical documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from models.documents import Matrix, Vector

if TYPE_CHECKING:
    from inference.protocol import Embedder

Tokens = NDArray[np.float32]
"""Shape (batch, length, width)."""
Mask = NDArray[np.float32]
"""Shape (batch, length): 1 for a token, 0 for padding on the right; no row is only padding."""


def _sum(tokens: Tokens, weights: Mask) -> Any:
    return np.matmul(weights[:, np.newaxis, :], tokens)[:, 0]


def _count(mask: Mask) -> Any:
    return mask.sum(axis=1, keepdims=True)


def _mean(tokens: Tokens, mask: Mask) -> Any:
    return _sum(tokens, mask) / _count(mask)


POOLINGS: Mapping[str, Callable[[Tokens, Mask], Matrix]] = {
    "mean": _mean,
    "cls": lambda tokens, mask: tokens[:, 0],
    "max": lambda tokens, mask: np.where(mask[:, :, np.newaxis] > 0, tokens, -np.inf).max(axis=1),
    "mean_sqrt_len_tokens": lambda tokens, mask: _sum(tokens, mask) / np.sqrt(_count(mask)),
    # The n-th token counts n times (Muennighoff, SGPT 2022).
    "weightedmean": lambda tokens, mask: _mean(
        tokens, mask * np.arange(1, mask.shape[1] + 1, dtype=np.float32)
    ),
    "lasttoken": lambda tokens, mask: tokens[np.arange(len(tokens)), mask.sum(axis=1).astype(np.int64) - 1],
}


def pool(tokens: Tokens, mask: Mask, pooling: str) -> Matrix:
    """Shape (batch, width times the number of poolings); `pooling` is a key of POOLINGS, or several joined by "+"."""
    return np.concatenate([POOLINGS[name](tokens, mask) for name in pooling.split("+")], axis=1)


def normalised(vectors: Matrix) -> Matrix:
    """Unit length; a vector of zeros stays one, and the embedder then refuses it."""
    unit: Matrix = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
    return unit


def feedback_vector(
    question: Vector, passages: Matrix, scores: Sequence[float], *, alpha: float = 0.6, count: int = 3
) -> Vector:
    """Pseudo-relevance feedback on vectors (Li et al., TOIS 2023): norm(a q + (1 - a) norm(sum w_i d_i)).

    `passages`, shape (n, d), are those that BM25 found; their weights are their BM25 `scores`, and only the `count` best
    are used.  `alpha` is the question's share.  Without passages the result is the normalised question.
    """
    weights = np.asarray(scores, np.float32)
    best = np.argsort(-weights, kind="stable")[:count]
    return _unit_length(
        alpha * _unit_length(question) + (1 - alpha) * _unit_length(weights[best] @ passages[best])
    )


def hypothesis_vector(question: Vector, documents: Matrix) -> Vector:
    """HyDE (Gao et al., 2022): the mean of the question and its hypothetical documents, normalised.

    `documents` has shape (n, d); `question` and `documents` are normalised.
    """
    return _unit_length(question + documents.sum(axis=0))


def _unit_length(vector: Vector) -> Vector:
    """The vector at unit length; a vector of zeros is returned as it is."""
    length = float(np.linalg.norm(vector))
    return np.asarray(vector / length if length > 0 else vector, np.float32)


PROBES = (
    "The cat sleeps on the warm roof of the house.",
    "The central bank raised its interest rate in March.",
    "Close the valve before you open the pump.",
)
PROBE_S = 10.0


def probe(embedder: Embedder) -> tuple[float, float, float]:
    """The cosines of three fixed passages, each with each: they change if an endpoint serves another model under the same
    name.  Raises StageFailure.
    """
    vectors = embedder.embed_passages(PROBES, timeout_s=PROBE_S)
    first, second, third = (float(one @ other) for one, other in combinations(vectors, 2))
    return first, second, third
