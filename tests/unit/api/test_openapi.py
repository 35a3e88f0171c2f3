"""The description of the API: frozen, and good to generate clients from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from api.openapi import FILE, openapi_text

DOCUMENT = json.loads(FILE.read_text("utf-8"))


def operations() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_the_description_is_the_one_that_clients_were_generated_from() -> None:
    assert openapi_text() == FILE.read_text("utf-8"), "`python -m api.openapi` writes api/openapi.json anew"


def test_every_operation_has_an_id_of_its_own_a_tag_and_a_sentence() -> None:
    ids = [operation["operationId"] for _, operation in operations()]
    assert len(set(ids)) == len(ids)
    assert all(one.replace("_", "").isalpha() for one in ids)
    for called, operation in operations():
        assert operation["tags"], called
        assert operation["description"].endswith("."), called


@pytest.mark.parametrize(("called", "operation"), list(operations()))
def test_every_error_is_a_problem_and_every_answer_has_a_schema(
    called: str, operation: dict[str, Any]
) -> None:
    for status, response in operation["responses"].items():
        types = response.get("content", {})
        if status == "default" or (status[0] in "45" and called != "GET /readyz"):
            assert [*types] == ["application/problem+json"], status
        elif status not in ("204", "304"):
            assert types, status
        if json_ := types.get("application/json"):
            assert "$ref" in json_["schema"] or "anyOf" in json_["schema"], status


def test_only_probes_need_no_key() -> None:
    assert [called for called, operation in operations() if "security" not in operation] == [
        "GET /healthz",
        "GET /readyz",
    ]
