"""Every moment that the API's description promises in an answer has one form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from api.openapi import FILE
from api.timestamps import at, in_utc, rfc3339

DOCUMENT = json.loads(FILE.read_text("utf-8"))
MOMENT = re.compile(r"now|.*(_at|_until|_since|_time|timestamp|date)(_ms|_s)?")
OF_DOCUMENTS = {"published_at"}
"""Fields of documents, which stay as they were handed in."""


def schemas(part: Any) -> Iterator[str]:
    """The names of the schemas to which this part of the description leads."""
    if isinstance(part, dict):
        if "$ref" in part:
            yield part["$ref"].rpartition("/")[2]
        for one in part.values():
            yield from schemas(one)
    elif isinstance(part, list):
        for one in part:
            yield from schemas(one)


def schemas_of_answers() -> set[str]:
    operations = [one for methods in DOCUMENT["paths"].values() for one in methods.values()]
    known: set[str] = set()
    waiting = {name for one in operations for name in schemas(one["responses"])}
    while waiting:
        known |= waiting
        waiting = {n for name in waiting for n in schemas(DOCUMENT["components"]["schemas"][name])} - known
    return known


def moments() -> dict[str, Any]:
    """The fields of answers that are moments by their name or their format, and what they may be besides null."""
    found = {}
    for schema in schemas_of_answers():
        for name, field in DOCUMENT["components"]["schemas"][schema].get("properties", {}).items():
            kinds = [one for one in field.get("anyOf", [field]) if one.get("type") != "null"]
            is_moment = MOMENT.fullmatch(name) and name not in OF_DOCUMENTS
            if is_moment or any(kind.get("format") == "date-time" for kind in kinds):
                found[f"{schema}.{name}"] = kinds
    return found


def test_every_moment_of_an_answer_is_described_as_rfc_3339_in_utc_with_milliseconds() -> None:
    described = moments()
    assert {"Job.ended_at", "AuditLine.accepted_at", "AuditedSearch.now", "RuleSet.changed_at"} <= {
        *described
    }
    for name, kinds in described.items():
        assert [(kind["type"], kind.get("format")) for kind in kinds] == [("string", "date-time")], name
        pattern = re.compile(kinds[0].get("pattern", ""))
        assert pattern.search("2026-11-26T05:46:24.123Z"), name
        for other in (
            "2026-11-26T05:46:24Z",
            "2026-11-26T05:46:24.123456Z",
            "2026-11-26T05:46:24.123+00:00",
            "1795672259676",
        ):
            assert not pattern.search(other), name


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (at(0), "1970-01-01T00:00:00.000Z"),
        (at(1_795_672_259_676), "2026-11-26T05:50:59.676Z"),
        (datetime(2026, 11, 26, 5, 46, 24, 123_999, UTC), "2026-11-26T05:46:24.123Z"),
        (datetime(2026, 11, 26, 6, 46, 24, tzinfo=timezone(timedelta(hours=1))), "2026-11-26T05:46:24.000Z"),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "0001-01-01T00:00:00.000+01:00"),
    ],
)
def test_a_moment_is_written_in_utc_with_milliseconds(moment: datetime, expected: str) -> None:
    assert rfc3339(moment) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-26T06:46:24+01:00", "2026-11-26T05:46:24.000Z"),
        ("2026-11-26T05:46:24.123456", "2026-11-26T05:46:24.123Z"),
        ("2026-11-26", "2026-11-26T00:00:00.000Z"),
        ("yesterday", "yesterday"),
    ],
)
def test_a_moment_of_a_caller_is_written_in_utc_and_another_text_stays(text: str, expected: str) -> None:
    assert in_utc(text) == expected
