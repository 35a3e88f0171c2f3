"""Fields whose values are a closed list."""

from __future__ import annotations

from typing import Any

import pytest

from search.closed_values import wrong_filter, wrong_metadata

CLOSED = {
    "domain": ("tax", "cars", "café"),
    "year": ("2024", "2025"),
    "law.kind": ("act",),
    "is_open": ("true",),
}
THERE_ARE = "there are: tax, cars, café"


@pytest.mark.parametrize(
    "condition",
    ["taxx", ["tax", "taxx"], {"not": "taxx"}, {"not": ["taxx"]}, {"all": ["tax", {"not": "taxx"}]}],
)
def test_a_value_beside_the_list_is_an_error_that_lists_the_values_wherever_a_filter_compares(
    condition: Any,
) -> None:
    assert (
        wrong_filter({"lang": "en", "domain": condition}, CLOSED) == f"filters.domain: no 'taxx'; {THERE_ARE}"
    )


@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"domain": []},
        {"domain": ["tax", "cars"], "year": [2024, "2025"]},
        {"domain": "cafe\N{COMBINING ACUTE ACCENT}", "is_open": True},
        {"domain": {"exists": True, "contains": "ta"}, "year": {"gte": 1999}},
        {"law.kind": "act", "topic": "taxx"},
    ],
)
def test_values_of_the_list_other_operators_and_other_fields_are_no_error(filters: dict[str, Any]) -> None:
    assert wrong_filter(filters, CLOSED) is None


def test_a_document_may_lack_the_field_and_have_several_of_its_values_and_no_other() -> None:
    for metadata in (
        {},
        {"domain": None},
        {"domain": ["tax", "cars"]},
        {"year": 2024, "law": {"kind": "act"}},
    ):
        assert wrong_metadata(metadata, CLOSED) is None
    assert wrong_metadata({"domain": ["tax", "taxx"]}, CLOSED) == f"metadata.domain: no 'taxx'; {THERE_ARE}"
    assert wrong_metadata({"law": {"kind": "bill"}}, CLOSED) == "metadata.law.kind: no 'bill'; there are: act"
