"""The filters, thresholds and groups of the command line, and what they are on the wire."""

from __future__ import annotations

from typing import Any

import pytest
import typer
from chorale_client import make_request

from cli.options import WrongFilter, parse_filters, parse_options
from search.filters import compile_filters


@pytest.mark.parametrize(
    ("conditions", "wire"),
    [
        (["source=faq,guide"], {"source": ["faq", "guide"]}),
        (["source=faq"], {"source": "faq"}),
        (["year>=2020"], {"year": {"gte": 2020}}),
        (["year>=2020", "year<2024"], {"year": {"gte": 2020, "lt": 2024}}),
        (["published_at<=2024-05-01"], {"published_at": {"lte": "2024-05-01"}}),
        (["share>0.5"], {"share": {"gt": 0.5}}),
        (["kind!=draft"], {"kind": {"not": "draft"}}),
        (["kind!=draft,old"], {"kind": {"not": ["draft", "old"]}}),
        (["title~notice period"], {"title": {"contains": "notice period"}}),
        (["url=*"], {"url": {"exists": True}}),
        (["url!=*"], {"url": {"exists": False}}),
        # A collection may hold numbers and truth values as such, or as text.
        (["year=2020"], {"year": [2020, "2020"]}),
        (["open=true"], {"open": [True, "true"]}),
        (['code="007"'], {"code": "007"}),
        (["code=007"], {"code": "007"}),
        (['name="Smith, John","a \\"b\\""'], {"name": ["Smith, John", 'a "b"']}),
        (["  a b = c = d  "], {"a b": "c = d"}),
        (['note=""'], {"note": ""}),
        (["a.b=1,x"], {"a.b": [1, "1", "x"]}),
    ],
)
def test_a_condition_is_converted_to_its_wire_format(conditions: list[str], wire: dict[str, Any]) -> None:
    filters = parse_filters(conditions)
    assert filters == wire
    assert make_request("anything", filters=filters).filters == wire
    assert compile_filters(filters).warnings == ()


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        (["year"], "is none of: FIELD=VALUE"),
        (["=2020"], "is none of: "),
        (["year="], "a value is missing"),
        (["source=faq,"], "a value is missing"),
        (["year>=2020,2021"], ">= takes one value"),
        (['name="open'], "the quotes do not close"),
        (['name="a"b'], "the quotes do not close, or something follows"),
        (["year=2020", "year=2021"], "any of several is year=A,B"),
        (["year>=2020", "year=2021"], "has a condition already"),
        (["year>=2020", "year>=2021"], "has that condition already"),
    ],
)
def test_an_unreadable_condition_is_refused_with_the_reason(conditions: list[str], reason: str) -> None:
    with pytest.raises(WrongFilter) as refused:
        parse_filters(conditions)
    assert reason in str(refused.value)
    assert repr(conditions[-1]) in str(refused.value)


def test_options_are_one_json_object() -> None:
    assert parse_options('{"depth": 50}') == {"depth": 50}
    assert parse_options(None) == {}
    for text in ("depth=50", "[1]"):
        with pytest.raises(typer.BadParameter, match="not "):
            parse_options(text)
