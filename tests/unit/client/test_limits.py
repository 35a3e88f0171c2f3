"""What is too much for one request, or is no text, is refused: the error names the field and the limit, and is short."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from chorale_client import InvalidRequest, Request, limits, make_request
from chorale_client.request_factory import check_fields, request_json
from chorale_client.wire_reader import MAX_IGNORED, read_request

HALF = "\ud800"
HUGE = "a" * 5_000_000
LONGEST_ERROR = 4_000


def complaint(questions: Any = "bread", **options: Any) -> str:
    with pytest.raises(InvalidRequest) as raised:
        make_request(questions, **options)
    error = str(raised.value)
    assert len(error) < LONGEST_ERROR
    assert error.isprintable()
    return error


def names(count: int) -> list[str]:
    return [f"b{place}" for place in range(count)]


NAME = "a" * limits.MAX_NAME_CHARS
NAMES: dict[str, Any] = {"configuration": NAME, "fusion": NAME, "correlation_id": NAME, "tags": {NAME: NAME}}
SIXTEEN = names(limits.MAX_BRANCHES)
WEIGHTS = dict.fromkeys(SIXTEEN, 1)
LARGEST: dict[str, dict[str, Any]] = {
    "names": NAMES,
    "branches": {
        "branches": SIXTEEN,
        "weights": WEIGHTS,
        "require": SIXTEEN,
        "min_branches": limits.MAX_BRANCHES,
    },
    "tags": {"tags": dict.fromkeys(names(limits.MAX_TAGS), "x")},
    "ids": {"exclude_ids": ["x" * 200] * limits.MAX_EXCLUDED},
    "a long id": {"exclude_ids": ["x" * limits.MAX_ID_CHARS]},
    "fields": {"filters": dict.fromkeys(names(limits.MAX_CONDITIONS), 1)},
    "conditions of one field": {
        "filters": {"a": {"all": [{"gt": 1, "lt": 9}] * (limits.MAX_CONDITIONS // 2)}}
    },
    "parts": {"filters": {"a": {"contains": ["x"] * limits.MAX_CONDITIONS}}},
    "values": {"filters": {"a": ["x"] * (limits.MAX_FILTER_VALUES - 1), "b": {"not": ["x"]}}},
    "a field's name": {"filters": {NAME: 1}},
    "questions": {
        "questions": ["a" * (limits.MAX_REQUEST_BYTES // limits.MAX_QUESTIONS - 100)] * limits.MAX_QUESTIONS
    },
}
TOO_MUCH: dict[str, tuple[dict[str, Any], str]] = {
    "configuration": ({"configuration": HUGE}, "configuration: String should have at most 256 characters"),
    "branches": ({"branches": names(17)}, "branches: List should have at most 16 items"),
    "a branch": ({"branches": ["a", HUGE]}, "branches.1: String should have at most 256 characters"),
    "weights": ({"weights": dict.fromkeys(names(17), 1)}, "weights: Dictionary should have at most 16 items"),
    "a weight": ({"weights": {HUGE: 1}}, "weights.'aaa"),
    "a tag": ({"tags": {HUGE: "x"}}, "tags.'aaa"),
    "exclude_ids": ({"exclude_ids": ["a"] * 1_001}, "exclude_ids: List should have at most 1000 items"),
    "wrong ids": ({"exclude_ids": [7] * 100_000}, "exclude_ids.0: Input should be a valid string"),
    "conditions": ({"filters": dict.fromkeys(names(100_000), 1)}, "filters: 100,000 conditions; at most 200 are allowed"),
    "conditions inside": ({"filters": {"a": {"not": {"all": [1] * 201}}}}, "filters: 201 conditions; at most 200"),
    "parts": ({"filters": {"a": {"contains": ["x"] * 201}}}, "filters: 201 conditions; at most 200"),
    "values": ({"filters": {"a": ["x"] * 600, "b": {"not": ["x"] * 401}}}, "filters: 1,001 values in lists; at most 1,000"),
    "a number": ({"filters": {"a": 10**400}}, "takes a text, a finite number"),
    "a field's name": ({"filters": {HUGE: 1}}, "a name of 5,000,000 characters; at most 256 are allowed"),
    "an operator": ({"filters": {"a": {HUGE: 1}}}, "filters: filter 'a': no operator 'aaa"),
    "an unknown field": ({HUGE: 1}, ": unknown field"),
    "unknown fields": (dict.fromkeys(names(100_000), 1), "; and 99,992 more"),
    "everything": (
        {"questions": ["a" * limits.MAX_TEXT_CHARS] * 33},
        "questions: the request has 272,812 bytes as JSON, most of them here; at most 262,144 are allowed",
    ),
}  # fmt: skip


@pytest.mark.parametrize("options", LARGEST.values(), ids=LARGEST)
def test_the_largest_allowed_values_are_taken_as_they_are(options: dict[str, Any]) -> None:
    request = make_request(**{"questions": "bread", **options})
    assert read_request(request.model_dump_json()).request == request


@pytest.mark.parametrize(("options", "says"), TOO_MUCH.values(), ids=TOO_MUCH)
def test_more_than_the_limit_is_refused_by_name(options: dict[str, Any], says: str) -> None:
    assert says in complaint(**{"questions": "bread", **options})


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    name: ({name: value}, f"{field}: invalid Unicode: lone surrogate")
    for name, value, field in (
        ("configuration", HALF, "configuration"),
        ("fusion", HALF, "fusion"),
        ("group_by", HALF, "group_by.field"),
        ("branches", ["bm25", HALF], "branches.1"),
        ("require", [HALF], "require.0"),
        ("exclude_ids", ["a", HALF], "exclude_ids.1"),
        ("include", [HALF], "include.0"),
    )
} | {
    "weights": ({"weights": {HALF: 1}}, "weights."),
    "tags": ({"tags": {HALF: "x"}}, "tags."),
    "filters": ({"filters": {HALF: 1}}, "filters: filter '\\ud800': invalid Unicode"),
    "an operator": ({"filters": {"a": {HALF: 1}}}, "filters: filter 'a': no operator '\\ud800'"),
    "request_id": ({"request_id": HALF}, "request_id: an id is"),
    "namespace": ({"namespace": HALF}, "namespace: a namespace is"),
    "now": ({"now": HALF}, "now: not an ISO 8601 moment"),
    "traceparent": ({"traceparent": HALF}, "traceparent: a traceparent is"),
    "on_end": ({"on_end": {"task": HALF, "queue": "q"}}, "on_end: takes"),
    "boosts": ({"boosts": HALF}, "boosts"),
    "a source type": ({"boosts": {"authority": {HALF: 1.0}}}, "boosts"),
    "thresholds": ({"thresholds": {HALF: 1}}, "thresholds: "),
    "an argument": ({"linked": [{"task": "t", "queue": "q", "args": [HALF]}]}, "linked.0.args: not JSON: "),
    "an unknown field": ({HALF: 1}, "request: invalid Unicode"),
}


@pytest.mark.parametrize(("options", "says"), REFUSED.values(), ids=REFUSED)
def test_half_a_character_in_a_name_is_refused_by_field(options: dict[str, Any], says: str) -> None:
    assert complaint(**options).startswith(says)


def test_half_a_character_in_a_question_or_a_tag_is_replaced() -> None:
    variants = [{"kind": "keyword", "text": f"b{HALF}"}]
    fields = {"text": f"a{HALF}", "variants": variants, "hypothetical_documents": [f"c{HALF}"]}
    request = make_request(fields, correlation_id=f"d{HALF}", tags={"who": f"e{HALF}"})
    (question,) = request.questions
    assert (question.text, question.variants[0].text) == ("a\ufffd", "b\ufffd")
    assert question.hypothetical_documents == ("c\ufffd",)
    assert (request.correlation_id, request.tags) == ("d\ufffd", {"who": "e\ufffd"})


def test_a_request_that_was_made_past_the_client_s_checks_is_refused_before_it_is_read() -> None:
    entry = b'{"questions":["bread"],"configuration":"' + b"a" * limits.MAX_REQUEST_BYTES + b'"}'
    endless: list[Any] = []
    endless.append(endless)
    too_large = Request(questions=("é" * limits.MAX_TEXT_CHARS,) * 17)
    for refused, says in (
        (lambda: read_request(entry), "request: the request has 262,186 bytes as JSON; at most 262,144"),
        (
            lambda: check_fields({"configuration": HUGE}),
            "configuration: the request has .* most of them here",
        ),
        (lambda: check_fields({"questions": endless}), "request: not JSON"),
        (lambda: request_json(too_large), "questions: the request has"),
    ):
        with pytest.raises(InvalidRequest, match=f"^{says}"):
            refused()


def test_a_request_of_the_next_version_has_a_limit_of_unknown_fields_too() -> None:
    fields = {"v": 2, "questions": ["bread"], **dict.fromkeys(names(MAX_IGNORED), 1)}
    assert len(read_request(fields).ignored) == MAX_IGNORED
    with pytest.raises(InvalidRequest, match=r"b0: unknown field; .* and 249 more"):
        read_request({**fields, "one": 1})
    with pytest.raises(
        InvalidRequest, match=r"^v: wire version (a number of thousands of|.* roughly 5001) digits"
    ):
        read_request({**fields, "v": 10**5_000})


def test_an_error_has_no_character_that_steers_a_terminal() -> None:
    assert complaint(**{"\x1b]52;c;aa\x07": 1}) == "'\\x1b]52;c;aa\\x07': unknown field"
    assert not re.search(r"[\x00-\x1f]", complaint(tags={"a\x07": 7}))


def test_the_reference_has_every_limit_with_its_value() -> None:
    page = Path(__file__).parents[3].joinpath("docs", "reference", "wire.md").read_text("utf-8")
    listed = dict(re.findall(r"^\| `(MAX_\w+)` \| ([\d,]+) \|", page, re.MULTILINE))
    assert listed == {name: f"{value:,}" for name, value in vars(limits).items() if name.startswith("MAX_")}
