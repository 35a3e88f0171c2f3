"""Filters as Elasticsearch clauses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from models.batching import in_batches
from search.term_conditions import Conditions

Clause = dict[str, Any]

FACETS = "facets"
"""The keyword field with the terms."""

LONGEST_PART = 200
"""Maximum characters of a text for `contains`: a pattern may have 1,000 (`index.max_regex_length`)."""
_MOST_TERMS = 65_536
"""`index.max_terms_count`."""
_STATES = 1_000_000


def restricted(query: Clause, clauses: Sequence[Clause]) -> Clause:
    """`query` for passages that meet the clauses; scores stay the same."""
    return {"bool": {"must": [query], "filter": [*clauses]}} if clauses else query


def _terms(field: str, values: Sequence[str]) -> Iterator[Clause]:
    """Clauses for any of these values."""
    for part in in_batches(values, _MOST_TERMS):
        yield {"terms": {field: part}}


def _some(clauses: list[Clause]) -> Clause:
    return clauses[0] if len(clauses) == 1 else {"bool": {"should": clauses, "minimum_should_match": 1}}


def _has_like(beginning: str, part: str) -> Clause:
    pattern = f"{_literal(beginning)}.*{_literal(part)}.*"
    # `wildcard` has a fixed limit on an automaton's size, which the same two letters fifty times exceed.
    return {"regexp": {FACETS: {"value": pattern, "flags": "NONE", "max_determinized_states": _STATES}}}


def _literal(text: str) -> str:
    # Escapes only ASCII, which alone has a meaning: else the longest part could exceed the limit of a pattern.
    return "".join(
        f"\\{character}" if character.isascii() and not character.isalnum() else character
        for character in text
    )


CLAUSES = Conditions[Clause](
    longest_part=LONGEST_PART,
    has_id=lambda ids: _some([*_terms("document_id", ids)]),
    has_any=lambda terms: _some([*_terms(FACETS, terms)]),
    has_like=_has_like,
    every=lambda clauses: clauses[0] if len(clauses) == 1 else {"bool": {"filter": [*clauses]}},
    some=_some,
    negated=lambda clause: {"bool": {"must_not": [clause]}},
)
