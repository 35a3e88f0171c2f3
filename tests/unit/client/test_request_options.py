"""The keyword arguments of the client are the fields of the request.

mypy checks this file in `make check`: it reports a `type: ignore` that suppresses nothing.
"""

from __future__ import annotations

from typing import Any, Literal, get_type_hints

import pytest
from chorale_client import Chorale, InvalidRequest, Request, make_request
from chorale_client.boosts import Boosts
from chorale_client.request import Grouping, Thresholds
from chorale_client.request_factory import BoostOptions, GroupingOptions, RequestOptions, ThresholdOptions
from pydantic import BaseModel, TypeAdapter

HINTS = get_type_hints(RequestOptions)
HINTS_OF_OBJECTS: dict[str, Any] = {
    "boosts": Literal["off"] | Boosts | None,
    "thresholds": Thresholds | None,
    "group_by": str | Grouping | None,
}
SCHEMAS = Request.model_json_schema()["properties"]


def shape(schema: dict[str, Any]) -> dict[str, Any]:
    """The types of a JSON schema without its bounds and descriptions."""
    types: dict[str, Any] = {}
    for name in ("type", "enum", "const"):
        if name in schema:
            types[name] = schema[name]
    for name in ("items", "additionalProperties"):
        if name in schema:
            types[name] = shape(schema[name]) if isinstance(schema[name], dict) else schema[name]
    if "anyOf" in schema:
        types["anyOf"] = [shape(one) for one in schema["anyOf"]]
    return types


def test_every_field_of_a_request_is_an_option() -> None:
    assert HINTS.keys() == SCHEMAS.keys() - {"v", "questions", "linked", "headers"}


@pytest.mark.parametrize(
    ("options", "model"),
    [(ThresholdOptions, Thresholds), (GroupingOptions, Grouping), (BoostOptions, Boosts)],
)
def test_an_object_has_the_fields_of_its_model(options: type, model: type[BaseModel]) -> None:
    assert get_type_hints(options).keys() == model.model_fields.keys()


@pytest.mark.parametrize("name", sorted(HINTS))
def test_an_option_has_the_type_of_its_field(name: str) -> None:
    # Python 3.11's TypedDict has no schema; neither has what is in it a place in a shape.
    hint = HINTS_OF_OBJECTS.get(name, HINTS[name])
    assert shape(TypeAdapter(hint).json_schema()) == shape(SCHEMAS[name])


def test_a_wrong_option_is_an_error_for_type_checkers_and_for_the_client() -> None:
    with pytest.raises(InvalidRequest, match="tpo_k"):
        make_request("bread", tpo_k=3)  # type: ignore[call-arg]
    with pytest.raises(InvalidRequest, match="top_k"):
        make_request("bread", top_k="three")  # type: ignore[arg-type]
    client = Chorale()
    with pytest.raises(InvalidRequest, match="tpo_k"):
        client.retrieve("bread", tpo_k=3)  # type: ignore[call-arg]
    with pytest.raises(InvalidRequest, match="tpo_k"):
        client.send("bread", tpo_k=3)  # type: ignore[call-arg]
