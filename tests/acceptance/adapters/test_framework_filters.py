"""The filters of Haystack and LlamaIndex, as a request takes them.

The frameworks take seconds to import, in each process that collects the tests.
"""

from __future__ import annotations

from typing import Any

import pytest
from chorale_client import InvalidRequest, make_request
from chorale_client.adapters.framework_filters import condition

YEAR = {"field": "meta.year", "operator": ">=", "value": 2020}
KIND = {"field": "meta.kind", "operator": "in", "value": ["faq", "guide"]}
NO_DRAFT = {"field": "draft", "operator": "!=", "value": True}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (YEAR, {"year": {"gte": 2020}}),
        (
            {"operator": "AND", "conditions": [YEAR, KIND, NO_DRAFT]},
            {"year": {"gte": 2020}, "kind": ["faq", "guide"], "draft": {"not": True}},
        ),
        (
            {"operator": "AND", "conditions": [YEAR, {**YEAR, "operator": "<", "value": 2030}]},
            {"year": {"all": [{"gte": 2020}, {"lt": 2030}]}},
        ),
        ({"operator": "NOT", "conditions": [KIND]}, {"kind": {"not": ["faq", "guide"]}}),
        ({"field": "meta.year", "operator": "==", "value": None}, {"year": {"exists": False}}),
        ({"field": "meta.kind", "operator": "not in", "value": ["faq"]}, {"kind": {"not": ["faq"]}}),
        ({"year": {"gte": 2020}}, {"year": {"gte": 2020}}),
    ],
)
def test_haystack_s_filters_become_those_of_a_request(
    filters: dict[str, Any], expected: dict[str, Any]
) -> None:
    from chorale_client.adapters.haystack import request_filters

    assert request_filters(filters) == expected
    assert make_request("", filters=expected).filters == expected


@pytest.mark.parametrize(
    ("filters", "complaint"),
    [
        ({"operator": "OR", "conditions": [YEAR, KIND]}, "OR cannot be expressed"),
        (
            {"operator": "NOT", "conditions": [YEAR, KIND]},
            "NOT takes conditions on one field, not on year, kind",
        ),
        ({"field": "meta.year", "operator": "~", "value": 1}, "no operator '~'; there are: ==, !=, >"),
    ],
)
def test_what_a_request_cannot_express_is_refused_by_name(filters: dict[str, Any], complaint: str) -> None:
    from chorale_client.adapters.haystack import request_filters

    with pytest.raises(InvalidRequest, match=complaint):
        request_filters(filters)


@pytest.mark.parametrize(
    ("operator", "value", "expected"),
    [
        ("==", 2020, 2020),
        ("!=", 2020, {"not": 2020}),
        ("<=", 2020, {"lte": 2020}),
        ("in", ["a", "b"], ["a", "b"]),
        ("nin", ["a"], {"not": ["a"]}),
        ("any", ["a", "b"], ["a", "b"]),
        ("all", ["a", "b"], {"all": ["a", "b"]}),
        ("contains", "law", {"contains": "law"}),
        ("text_match_insensitive", "law", {"contains": "law"}),
        ("is_empty", None, {"exists": False}),
    ],
)
def test_llama_index_s_filters_become_those_of_a_request(operator: str, value: Any, expected: Any) -> None:
    from chorale_client.adapters.llama_index import request_filters
    from llama_index.core.vector_stores.types import MetadataFilters

    filters = MetadataFilters.from_dicts([{"key": "field", "operator": operator, "value": value}])
    assert request_filters(filters) == {"field": expected}
    make_request("", filters={"field": expected})


@pytest.mark.parametrize("operator", ["in", "not in", "nin", "any", "all"])
@pytest.mark.parametrize("value", ["books", 5, None, {"a": 1}])
def test_an_operator_of_several_values_takes_no_single_one(operator: str, value: Any) -> None:
    with pytest.raises(InvalidRequest, match=f"filters: '{operator}' takes a list of values, not "):
        condition("kind", operator, value)


def test_llama_index_s_conditions_are_joined_negated_or_refused() -> None:
    from chorale_client.adapters.llama_index import request_filters
    from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters

    year, kind = MetadataFilter(key="year", value=2020), MetadataFilter(key="kind", value="faq")
    nested = MetadataFilters(filters=[year, MetadataFilters(filters=[kind], condition="not")])
    assert request_filters(nested) == {"year": 2020, "kind": {"not": "faq"}}
    with pytest.raises(InvalidRequest, match="or cannot be expressed"):
        request_filters(MetadataFilters(filters=[year, kind], condition="or"))
