"""Schemathesis asks the API whatever its description allows, and what it does not allow.

It does not check whether each call that the description allows is done: the description cannot say which branches the
pipeline has, or which options are of a later version.  `test_tenants.py` attacks keys.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import httpx
import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.core.result import Ok
from schemathesis.pytest.lazy import get_all_tests
from schemathesis.specs.openapi.checks import positive_data_acceptance

from api.openapi import FILE
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.http_api import HttpApi

REJECTED = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 429]
KNOWN: dict[str, str] = {}
"""What exists, by the name of its path parameter."""

for media_type in ("application/jsonl", "application/x-ndjson", "application/x-jsonlines"):
    schemathesis.serializer.alias(media_type, "text/plain")


@cache
def described() -> Any:
    """The description of the API, without its security scheme: every call here sends a key."""
    document = json.loads(FILE.read_text("utf-8"))
    for path in document["paths"].values():
        for operation in path.values():
            operation.pop("security", None)
    checks = {"negative_data_rejection": {"expected-statuses": REJECTED}}
    config = SchemathesisConfig.from_dict({"checks": checks})
    schema = schemathesis.openapi.from_dict(document, config=config)
    schema.hook(map_path_parameters)
    return schema


def map_path_parameters(_: Any, drawn: dict[str, Any] | None) -> dict[str, Any]:
    """Every second call asks for something that exists."""
    return {
        name: KNOWN[name] if name in KNOWN and _is_even(value) else value
        for name, value in (drawn or {}).items()
    }


def _is_even(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= 256 and sum(value.encode("utf-8", "replace")) % 2 == 0


@pytest.fixture(scope="module")
def api(pipeline: RunningPipeline) -> Iterator[HttpApi]:
    with HttpApi(pipeline.resources.settings) as server:
        yield server


@pytest.fixture(scope="module")
def ask(api: HttpApi) -> Iterator[Callable[[Any], None]]:
    """Makes a call with the key of a tenant that has a search, a job and a ticket, and checks the response."""
    key = api.key("fuzz", namespaces=frozenset({"default", "fuzz"}))
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=api.origin, headers=headers, timeout=30) as client:
        search = client.post("/v1/searches", json={"questions": ["bread"]}).json()["request_id"]
        lines = {"Content-Type": "application/jsonl"}
        job = client.post("/v1/jobs", content=b'{"text": "bread"}', headers=lines).json()["job_id"]
        documents = [{"id": "a", "text": "A text."}]
        ticket = client.post("/v1/namespaces/fuzz/documents", json={"documents": documents}).json()["ticket"]
    KNOWN.update(search_id=search, request_id=search, job_id=job, namespace="fuzz", ticket=ticket)

    def call(case: Any) -> None:
        response = case.call(base_url=api.origin, headers=headers, timeout=60)
        not_checked = [positive_data_acceptance]
        if response.status_code == 503 and response.json()["code"] == "failed":
            # Its own policy was not met: every branch within 50 ms, for example.
            not_checked.append(not_a_server_error)
        case.validate_response(response, excluded_checks=not_checked)

    yield call
    KNOWN.clear()


def calls(count: int) -> hypothesis.settings:
    """The same calls each time."""
    return hypothesis.settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


OPERATIONS = [result.ok().label for result in described().get_all_operations()]


@pytest.mark.limit_s(300)
@pytest.mark.parametrize("label", OPERATIONS)
def test_the_api_keeps_to_its_description_of(label: str, ask: Callable[[Any], None]) -> None:
    @calls(8)
    def each(case: Any) -> None:
        ask(case)

    # The plugin of Schemathesis makes the cases in each process that collects the tests, which takes seconds.
    schema = described().include(name=label)
    [made] = get_all_tests(schema=schema, test_func=each, settings=None, given_kwargs={})
    assert isinstance(made, Ok)
    _, ask_each = made.ok()
    ask_each()
