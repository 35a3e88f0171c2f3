"""Pools the vectors of a text's tokens into one, in every way of sentence-transformers' Pooling, and normalises it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from models.documents import Matrix

Tokens = NDArray[np.float32]
"""Shape (batch, length, width)."""
Mask = NDArray[np.float32]
"""Shape (batch, length): 1 for a token, 0 for padding on the right; no row is only padding."""


def _sum(tokens: Tokens, weights: Mask) -> Matrix:
    total: Matrix = np.matmul(weights[:, np.newaxis, :], tokens)[:, 0]
    return total


def _mean(tokens: Tokens, mask: Mask) -> Matrix:
    mean: Matrix = _sum(tokens, mask) / mask.sum(axis=1, keepdims=True)
    return mean


def _mean_by_root(tokens: Tokens, mask: Mask) -> Matrix:
    mean: Matrix = _sum(tokens, mask) / np.sqrt(mask.sum(axis=1, keepdims=True))
    return mean


def _mean_by_place(tokens: Tokens, mask: Mask) -> Matrix:
    """The n-th token counts n times (Muennighoff, SGPT 2022)."""
    return _mean(tokens, mask * np.arange(1, mask.shape[1] + 1, dtype=np.float32))


def _max(tokens: Tokens, mask: Mask) -> Matrix:
    highest: Matrix = np.where(mask[:, :, np.newaxis] > 0, tokens, -np.inf).max(axis=1)
    return highest


def _first(tokens: Tokens, mask: Mask) -> Matrix:
    return tokens[:, 0]


def _last(tokens: Tokens, mask: Mask) -> Matrix:
    last: Matrix = tokens[np.arange(len(tokens)), mask.sum(axis=1).astype(np.int64) - 1]
    return last


POOLINGS: Mapping[str, Callable[[Tokens, Mask], Matrix]] = {
    "mean": _mean,
    "cls": _first,
    "max": _max,
    "mean_sqrt_len_tokens": _mean_by_root,
    "weightedmean": _mean_by_place,
    "lasttoken": _last,
}


def pool(tokens: Tokens, mask: Mask, pooling: str) -> Matrix:
    """Shape (batch, width times the number of poolings); `pooling` is a key of POOLINGS, or several joined by "+"."""
    return np.concatenate([POOLINGS[name](tokens, mask) for name in pooling.split("+")], axis=1)


def normalised(vectors: Matrix) -> Matrix:
    """Unit length; a vector of zeros stays one, and the embedder then refuses it."""
    unit: Matrix = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
    return unit
