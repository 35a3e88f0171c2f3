"""BM25 in SQL, with the numbers of the embedded store's library."""

from __future__ import annotations

K1, B = 1.2, 0.75

_EXACT = 24


def kept_length(words: int) -> int:
    """As Lucene and tantivy keep a length in one byte: exact up to 40, then the first four binary digits of what is beyond 24."""
    dropped = max(0, max(0, words - _EXACT).bit_length() - 4)
    return words if not dropped else _EXACT + (words - _EXACT >> dropped << dropped)


def score(average_length: float) -> str:
    """Of rows that have a term: the sum for each passage or document; `weight` is that of the question's term."""
    # A plain 1.2 would be a numeric, which is ten times slower.
    fixed, growing = K1 * (1 - B), K1 * B / (average_length or 1.0)
    return f"sum(weight * count / (count + {fixed!r}::float8 + {growing!r}::float8 * length))"


def weight(documents: str, total: int) -> str:
    """Of a term that the question has `asked` times, in an index of `total` documents, of which `documents` have it."""
    return f"asked * {K1 + 1}::float8 * ln(1 + ({total} - {documents} + 0.5::float8) / ({documents} + 0.5::float8))"
