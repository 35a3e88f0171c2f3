"""Parameters and rows of a Cypher statement, for every store that runs Cypher."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from models.errors import InvalidAnswer
from search.filters import is_number
from search.protocol import Search

MAX_ROWS = 1_000
"""Rows that are read of one statement."""


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
