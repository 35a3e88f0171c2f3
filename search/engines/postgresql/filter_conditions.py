"""Filters as conditions of SQL, each with the values of its parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from search.filters import compile_filters
from search.protocol import Search
from search.term_conditions import Conditions, warnings

LONGEST_PART = 1_000
"""Maximum characters of a text for `contains`."""
_PART = "c"
"""Begins the terms that only `contains` looks for.  They are longer than an index takes."""


class Condition(NamedTuple):
    """On the columns of a document and its passage."""

    sql: str
    values: tuple[Any, ...] = ()


def split_facets(facets: Sequence[str]) -> tuple[list[str], list[str]]:
    """The contents of the columns `facets`, which is indexed, and `parts`, of the terms of a document."""
    stored = [_storable(text) for text in facets]
    parts = [text for text in stored if text.startswith(_PART)]
    return [text for text in stored if not text.startswith(_PART)], parts


def _storable(text: str) -> str:
    return text.replace("\0", "\ufffd")


def _has_any(terms: Sequence[str]) -> Condition:
    return Condition("facets && %s::text[]", (split_facets(terms)[0],))


def _has_like(beginning: str, part: str) -> Condition:
    texts = [re.sub(r"([\\%_])", r"\\\1", _storable(text)) for text in (beginning, part)]
    return Condition(
        "EXISTS (SELECT FROM unnest(parts) AS part WHERE part LIKE %s)", ("%".join([*texts, ""]),)
    )


def _joined(word: str) -> Callable[[Sequence[Condition]], Condition]:
    def join(conditions: Sequence[Condition]) -> Condition:
        values = [value for condition in conditions for value in condition.values]
        return Condition(f"({f' {word} '.join(condition.sql for condition in conditions)})", tuple(values))

    return join


every = _joined("AND")
CONDITIONS = Conditions[Condition](
    has_any=_has_any,
    has_like=_has_like,
    every=every,
    some=_joined("OR"),
    negated=lambda condition: Condition(f"NOT {condition.sql}", condition.values),
)


def conditions(search: Search) -> tuple[list[Condition], tuple[str, ...], tuple[str, ...]]:
    """The conditions, the fields each of which must be known, and the reasons why conditions are invalid."""
    filters = search.filters or {}
    complaints = warnings(filters, LONGEST_PART)
    found = [] if complaints or not filters else [CONDITIONS.of(filters)]
    if search.only_ids:
        found.append(Condition("document_id = ANY(%s)", (list(search.only_ids),)))
    if search.exclude_ids:
        found.append(Condition("document_id <> ALL(%s)", (list(search.exclude_ids),)))
    return found, compile_filters(filters).fields, complaints
