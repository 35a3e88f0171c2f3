"""Reads requests: this wire version strictly, the next one tolerantly; other versions are refused.

A client may be updated before the workers: they ignore unknown fields and name them in the answer's warnings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from chorale_client.errors import InvalidRequest, display_name, safe_repr
from chorale_client.limits import MAX_QUESTIONS, MAX_REQUEST_BYTES
from chorale_client.request import Question, Request
from chorale_client.request_factory import check_size
from chorale_client.wire_names import WIRE_VERSION, Warned

NEXT_VERSION = WIRE_VERSION + 1
MAX_IGNORED = 256
"""Unknown fields of a request that are ignored; with more it is refused."""


@dataclass(frozen=True, slots=True)
class ReadRequest:
    request: Request
    ignored: tuple[str, ...] = ()
    """Paths of the fields that this version does not know."""

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(f"{Warned.REQUEST}: {path}: unknown to this version, ignored" for path in self.ignored)


def read_request(wire: bytes | str | Mapping[str, Any]) -> ReadRequest:
    """Raises InvalidRequest."""
    try:
        if isinstance(wire, Mapping):
            return ReadRequest(Request.model_validate(wire))
        check_size(len(wire))
        return ReadRequest(Request.model_validate_json(wire))
    except ValidationError as error:
        fields = wire if isinstance(wire, Mapping) else _object(wire)
        version = fields.get("v", WIRE_VERSION)
        if (complaint := refusal(version)) is not None:
            raise InvalidRequest(f"v: {complaint}") from None
        if version != NEXT_VERSION:
            raise InvalidRequest.from_validation(error) from None
        return _tolerantly({**fields, "v": WIRE_VERSION})


def refusal(version: object) -> str | None:
    """Why a document or message of this wire version cannot be read; None if it can."""
    if isinstance(version, int) and WIRE_VERSION <= version <= NEXT_VERSION:
        return None
    return f"wire version {safe_repr(version)}, where versions {WIRE_VERSION} and {NEXT_VERSION} are read: update the older side"


def placeholder_request(request_id: str, wire: bytes | str | Mapping[str, Any]) -> Request:
    """A stand-in for an unreadable request, so that it can be ended: the same id and number of questions, all empty."""
    questions = (wire if isinstance(wire, Mapping) else _object(wire)).get("questions")
    count = len(questions) if isinstance(questions, list | tuple) else 1
    return Request(request_id=request_id, questions=(Question(text=""),) * min(max(1, count), MAX_QUESTIONS))


def _tolerantly(fields: dict[str, Any]) -> ReadRequest:
    ignored: list[str] = []
    while True:
        try:
            return ReadRequest(Request.model_validate(fields), tuple(ignored))
        except ValidationError as error:
            faults = error.errors(include_url=False)
            unknown = [fault["loc"] for fault in faults if fault["type"] == "extra_forbidden"]
            # Other errors may only follow from unknown fields; the next round shows it.
            if not unknown or len(unknown) > MAX_IGNORED:
                raise InvalidRequest.from_validation(error) from None
        for path in unknown:
            fields = _without(fields, path)
            ignored.append(".".join(map(display_name, path)))


def _without(value: Any, path: tuple[int | str, ...]) -> Any:
    first, *rest = path
    if isinstance(value, Mapping):
        if not rest:
            return {name: field for name, field in value.items() if name != first}
        return {**value, first: _without(value[first], tuple(rest))}
    return [_without(item, tuple(rest)) if place == first else item for place, item in enumerate(value)]


def _object(wire: bytes | str) -> dict[str, Any]:
    try:
        value = from_json(wire) if len(wire) <= MAX_REQUEST_BYTES else None
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
