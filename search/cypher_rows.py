"""What stores that run Cypher have in common: parameters and rows of a statement, and the refusal of other searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from models.documents import Matrix
from models.errors import InvalidAnswer, NotConfigured
from models.hits import Ranking
from search.filters import is_number
from search.protocol import Search

MAX_ROWS = 1_000
"""Rows that are read of one statement."""


class CypherAlone:
    """Inherit in a store that searches neither text nor vectors."""

    subject: str
    """Names the store in errors."""

    def search_text(self, namespace: str, texts: Sequence[str], search: Search) -> list[Ranking]:
        raise self._refusal()

    def search_vectors(self, namespace: str, vectors: Matrix, search: Search) -> list[Ranking]:
        raise self._refusal()

    def _refusal(self) -> NotConfigured:
        return NotConfigured(f"{self.subject} answers Cypher alone, from a branch of kind 'graph'")


def with_limits(values: Mapping[str, Any], namespace: str, search: Search) -> dict[str, Any]:
    """The values of all parameters.  A filter may remove rows, so the limit is then the highest."""
    is_filtered = search.filters or search.exclude_ids or search.only_ids
    return {
        **values,
        "namespace": namespace,
        "limit": MAX_ROWS if is_filtered else min(search.depth, MAX_ROWS),
    }


def ranked(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], score: str | None
) -> list[Mapping[str, Any]]:
    """The rows, best first.  Raises InvalidAnswer if `id` or `score` is no column."""
    for name in ("id", *([score] if score else ())):
        if name not in columns:
            raise InvalidAnswer(
                f"the statement returns no column {name!r}; there are: {', '.join(columns)}"[:500]
            )
    if score is None:
        return list(rows)
    return sorted(rows, key=lambda row: -score_of(row, score))


def score_of(row: Mapping[str, Any], score: str | None) -> float:
    """0 for a value that is no number."""
    value = row.get(score) if score else None
    return float(value) if is_number(value) and isfinite(value) else 0.0
