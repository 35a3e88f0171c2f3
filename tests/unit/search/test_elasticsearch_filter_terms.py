"""Terms that sort like the values they stand for, and filters as clauses over them."""

from __future__ import annotations

import math
import random
from itertools import pairwise

from search.elasticsearch.filter_conditions import FACETS, conditions
from search.elasticsearch.filter_terms import LONGEST_PART, facets, number_code, term
from search.protocol import Search

NUMBERS: list[int | float] = [-math.inf, -(10**400), -1e308, -(2**53) - 1, -(2**53), -123.5, -123.45, -100]
NUMBERS += [-12, -1.23, -1.2, -1, -5e-324, 0, 5e-324, 0.1, 0.30000000000000004, 1, 9, 10, 11, 99.99, 100]
NUMBERS += [2**53, 2**53 + 1, 1e308, 10**400, math.inf]


def test_codes_of_numbers_sort_like_the_numbers() -> None:
    assert all(number_code(less) < number_code(more) for less, more in pairwise(NUMBERS))
    drawn = random.Random(7)
    some = [drawn.choice([-1, 1]) * drawn.random() * 10 ** drawn.randint(-9, 9) for _ in range(2_000)]
    assert sorted(some, key=number_code) == sorted(some)
    for number, same in ((1, 1.0), (0.0, -0.0), (100, 1e2), (2**53, float(2**53))):
        assert number_code(number) == number_code(same)


def test_every_part_of_a_long_text_lies_within_one_of_its_terms() -> None:
    text = "".join(chr(0x4E00 + n) for n in range(5_000))  # no character occurs twice
    windows = [one for one in facets({"a": text}) if one.startswith(term("a", "c"))]
    for start in range(5_000 - LONGEST_PART + 1):
        part = text[start : start + LONGEST_PART]
        assert any(part in window for window in windows), start


def test_no_term_exceeds_lucenes_limit() -> None:
    fire = "\U0001f525"
    for one in facets({fire * 9_000: [fire * 9_000, {"x": fire * 99_000}, 10**4_000]}):
        assert len(one.encode()) <= 32_766


def test_a_field_with_nan_exists_and_equals_no_value() -> None:
    assert facets({"a": math.nan}) == [term("a", "?")]
    assert conditions(Search(1, {"a": math.nan})).clauses == ({"match_none": {}},)


def test_an_invalid_condition_is_named() -> None:
    too_long = "x" * (LONGEST_PART + 1)
    filters = {
        "a": {"near": 1},
        "b": {"gt": "x"},
        "c": {"contains": too_long},
        "d": {"not": {"contains": ["x", too_long]}},
        "e": {"contains": ["x", "x" * LONGEST_PART]},
    }
    asked = conditions(Search(1, filters))
    assert [warning.split(":")[0] for warning in asked.warnings] == [f"filter '{name}'" for name in "abcd"]


def test_no_pattern_exceeds_the_servers_limit() -> None:
    for character in ("x", "*", "\U0001f525"):
        field, part = character * 200, character * LONGEST_PART
        (clause,) = conditions(Search(1, {field: {"contains": part}})).clauses
        # Java counts UTF-16 units.
        assert len(clause["regexp"][FACETS]["value"].encode("utf-16-le")) // 2 <= 1_000


def test_no_clause_exceeds_the_servers_limit_of_values() -> None:
    asked = conditions(Search(1, {"a": [str(n) for n in range(70_000)]}, tuple(map(str, range(140_000)))))
    allowed, excluded = asked.clauses
    parts = [part["terms"][FACETS] for part in allowed["bool"]["should"]]
    assert [len(part) for part in parts] == [65_536, 70_000 - 65_536]
    assert {value for part in parts for value in part} == {term("a", "s", str(n)) for n in range(70_000)}
    names = [one["terms"]["document_id"] for one in excluded["bool"]["must_not"]]
    assert [len(part) for part in names] == [65_536, 65_536, 8_928]
