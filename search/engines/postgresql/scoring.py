"""BM25 in SQL, with the numbers of the embedded store's library."""

from __future__ import annotations

K1, B = 1.2, 0.75

_EXACT = 24
"""Lengths are kept as Lucene and tantivy keep them, in one byte: exact up to 40, from there on their first four binary digits
beyond 24."""


def kept_length(words: int) -> int:
    beyond = words - _EXACT
    dropped = max(0, beyond.bit_length() - 4) if beyond > 0 else 0
    return _EXACT + (beyond >> dropped << dropped)


def score(average_length: float) -> str:
    """Of rows that have a term: the sum for each passage or document; `weight` is that of the question's term."""
    return f"sum(weight * count / (count + {K1} * ({1 - B} + {B} * length / {average_length or 1.0})))"


def weight(documents: str, total: int) -> str:
    """Of a term that the question has `asked` times, in an index of `total` documents, of which `documents` have it."""
    return f"asked * ({K1} + 1) * ln(1 + ({total} - {documents} + 0.5) / ({documents} + 0.5))"
