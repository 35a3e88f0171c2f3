"""Filters (`search.filters`) as Elasticsearch clauses over the terms of `filter_terms`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from models.batching import in_batches
from search.elasticsearch.filter_terms import (
    LONGEST_PART,
    has_field,
    moment_code,
    number_code,
    same_value,
    term,
)
from search.filters import choices, compile_filters, date_span, is_number, long_part_warnings
from search.protocol import Search

Clause = dict[str, Any]

FACETS = "facets"
"""The keyword field with the terms."""

_NONE: Clause = {"match_none": {}}
_MOST_TERMS = 65_536
"""`index.max_terms_count`."""

_STATES = 1_000_000
_LAST = "~"
"""Greater than every character of a code."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions that a request's filters and exclusions put on each passage."""

    clauses: tuple[Clause, ...] = ()
    fields: tuple[str, ...] = ()
    """Nothing matches unless each of these fields is known."""
    warnings: tuple[str, ...] = ()
    """Reasons why conditions are invalid; with any warning nothing matches."""

    def around(self, query: Clause) -> Clause:
        """`query` restricted to passages that meet the conditions; scores stay the same."""
        return {"bool": {"must": [query], "filter": [*self.clauses]}} if self.clauses else query


def conditions(search: Search) -> Conditions:
    """Never raises: invalid conditions are named in `warnings`."""
    asked = search.filters or {}
    compiled = compile_filters(asked)
    warnings = compiled.warnings + long_part_warnings(asked, LONGEST_PART)
    clauses = tuple(_condition(field, wanted) for field, wanted in asked.items())
    if search.only_ids:
        clauses += ({"bool": {"should": [*_terms("document_id", tuple(search.only_ids))]}},)
    if search.exclude_ids:
        clauses += ({"bool": {"must_not": [*_terms("document_id", tuple(search.exclude_ids))]}},)
    return Conditions(clauses, compiled.fields, warnings)


def has_field_clause(field: str) -> Clause:
    return {"term": {FACETS: has_field(field)}}


def _condition(field: str, wanted: object) -> Clause:
    if not isinstance(wanted, Mapping):
        return _any_of(_equals, field, wanted)
    parts: list[Clause] = []
    for operator, operand in wanted.items():
        if operator in _RANGES:
            parts.append(_range(field, operator, operand))
        elif operator == "exists":
            known = has_field_clause(field)
            parts.append(known if operand is not False else _not(known))
        elif operator == "not":
            parts.append(_not(_condition(field, operand)))
        elif operator == "all" and isinstance(operand, list | tuple):
            parts.append({"bool": {"filter": [_condition(field, one) for one in operand]}})
        elif operator == "contains":
            parts.append(_any_of(_contains, field, operand))
        else:
            parts.append(_NONE)
    return parts[0] if len(parts) == 1 else {"bool": {"filter": parts}}


def _not(clause: Clause) -> Clause:
    return {"bool": {"must_not": [clause]}}


def _any_of(clauses: Callable[[str, object], Iterator[Clause]], field: str, wanted: object) -> Clause:
    parts = [part for choice in choices(wanted) for part in clauses(field, choice)]
    exact = [part["term"][FACETS] for part in parts if "term" in part]
    rest = [part for part in parts if "term" not in part]
    if len(exact) > 1:
        rest += _terms(FACETS, exact)
    elif exact:
        rest.append({"term": {FACETS: exact[0]}})
    if not rest:
        return _NONE
    return rest[0] if len(rest) == 1 else {"bool": {"should": rest, "minimum_should_match": 1}}


def _terms(field: str, values: Sequence[str]) -> Iterator[Clause]:
    """Clauses for any of these values."""
    for part in in_batches(values, _MOST_TERMS):
        yield {"terms": {field: part}}


def _equals(field: str, wanted: object) -> Iterator[Clause]:
    """Clauses; at least one must hold."""
    if wanted is None or wanted != wanted:
        return
    yield {"term": {FACETS: same_value(field, wanted)}}
    if (span := date_span(wanted)) is None:
        return
    first, last = map(moment_code, span)
    if first == last:
        yield {"term": {FACETS: term(field, "e", first + last)}}
    else:
        # A date that begins on this day is a moment of the day, or the day itself.
        yield _between(gte=term(field, "e", first), lte=term(field, "e", last + _LAST))


def _contains(field: str, wanted: object) -> Iterator[Clause]:
    """Clauses; at least one must hold.  No clause for a part that is longer than a server accepts."""
    if not isinstance(wanted, str):
        yield from _equals(field, wanted)
        return
    part = wanted.casefold()
    if len(part) > LONGEST_PART:
        return
    pattern = f"{_literal(term(field, 'c'))}.*{_literal(part)}.*"
    # `wildcard` has a fixed limit on an automaton's size, which the same two letters fifty times exceed.
    yield {"regexp": {FACETS: {"value": pattern, "flags": "NONE", "max_determinized_states": _STATES}}}


def _literal(text: str) -> str:
    # Escapes only ASCII, which alone has a meaning: else the longest part could exceed the limit of a pattern.
    return "".join(
        f"\\{character}" if character.isascii() and not character.isalnum() else character
        for character in text
    )


_RANGES: Mapping[str, Callable[[str, str, str, str], Clause]] = {
    # `gt` takes the terms after the bound's last moment, and so on; `search.filters` has the rules.
    "gt": lambda field, begin, _, last: _between(
        gt=term(field, begin, last + _LAST), lt=term(field, begin, _LAST)
    ),
    "gte": lambda field, begin, first, _: _between(
        gte=term(field, begin, first), lt=term(field, begin, _LAST)
    ),
    "lt": lambda field, end, first, _: _between(gte=term(field, end), lt=term(field, end, first)),
    "lte": lambda field, end, _, last: _between(gte=term(field, end), lte=term(field, end, last)),
}


def _range(field: str, operator: str, operand: object) -> Clause:
    if is_number(operand):
        if operand != operand:
            return _NONE
        code = number_code(operand)
        if operator == "gt":
            return _between(gt=term(field, "n", code), lt=term(field, "n", _LAST))
        return _RANGES[operator](field, "n", code, code)
    span = date_span(operand)
    if span is None:
        return _NONE
    kind = "e" if operator in ("gt", "gte") else "l"
    return _RANGES[operator](field, kind, moment_code(span[0]), moment_code(span[1]))


def _between(**bounds: str) -> Clause:
    return {"range": {FACETS: bounds}}
