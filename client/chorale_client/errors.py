"""The errors that the client raises, and values of a caller's in them: on one line, printable, and cut."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = MAX_REPR_CHARS = 80


def safe_repr(value: object) -> str:
    """The value as Python writes it, at most 80 characters."""
    try:
        return _REPR.repr(value)[:MAX_REPR_CHARS]
    except ValueError:
        return "a number of thousands of digits"


def display_name(name: object) -> str:
    """A name as it is if it is short and printable; otherwise as `safe_repr`."""
    is_plain = isinstance(name, str) and len(name) <= MAX_REPR_CHARS and name.isprintable()
    return str(name) if is_plain else safe_repr(name)


class ChoraleError(Exception):
    """Base class of the client's errors."""


MOST_FAULTS = 8
"""Faults that one error names; it says how many more there are."""
MOST_FAULT_CHARS = 400


class InvalidRequest(ChoraleError, ValueError):
    """A field of the request is wrong; nothing was enqueued."""

    @classmethod
    def from_validation(cls, error: ValidationError) -> InvalidRequest:
        """The message has for each field its path, what is wrong, and what is allowed."""
        return cls(
            describe_faults(error.errors(include_url=False, include_context=False, include_input=False))
        )


def describe_faults(faults: Sequence[Mapping[str, Any]], *, place: str = "request") -> str:
    """One sentence for each of the first faults that pydantic found; `place` is what a fault without a path is in."""
    lines: list[str] = []
    for fault in faults:
        loc = fault["loc"]
        # pydantic drops wrong items and then calls the list too short.
        if fault["type"] == "too_short" and any(
            other["loc"][: len(loc)] == loc != other["loc"] for other in faults
        ):
            continue
        if len(lines) == MOST_FAULTS:
            lines.append(f"and {len(faults) - MOST_FAULTS:,} more")
            break
        message = _MESSAGES.get(fault["type"]) or fault["msg"].removeprefix("Value error, ")
        message = message.replace("valid tuple", "valid list").replace("Tuple", "List", 1)
        # A message about the whole request names its field itself.
        path = "" if not loc and _FIELD.match(message) else ".".join(map(display_name, loc)) or place
        lines.append(f"{path}: {message}".removeprefix(": ")[:MOST_FAULT_CHARS])
    return "; ".join(lines)


_FIELD = re.compile(r"[a-z_]+: ")
_MESSAGES = {
    "extra_forbidden": "unknown field",
    "dict_type": "takes an object",
    "string_unicode": "invalid Unicode: lone surrogate",
}


class RequestIdConflict(ChoraleError):
    """This request id was already used for a different request; choose another id."""


class NotEnded(ChoraleError):
    """The request has not ended yet and goes on; ask again with its id."""


class UnknownRequest(ChoraleError):
    """The id is unknown: the request was never sent, or its answer has expired."""

    def __init__(self, request_id: str, why: str = "never submitted, or its answer has expired") -> None:
        super().__init__(f"{safe_repr(request_id)} not found: {why}")


class ServiceUnavailable(ChoraleError):
    """Redis or the broker cannot be reached.  `accepted` is the id of the request, if it was accepted before."""

    def __init__(self, message: str, *, accepted: str | None = None) -> None:
        super().__init__(message)
        self.accepted = accepted


class QueueFull(ServiceUnavailable):
    """Documents, or the lines of a job, were refused: Redis reserves the rest of its memory for requests."""

    def __init__(self, percent: int, waiting: int, *, items: str, consumers: str) -> None:
        super().__init__(
            f"Redis has no room for these {items}: {percent} % of its memory is in use, and {waiting:,} messages wait "
            f"for the {consumers}; hand them in again later, or fewer at a time"
        )
        self.waiting = waiting


class InvalidJob(InvalidRequest):
    """The job cannot be done as it was submitted; no line was answered."""

    def __init__(self, message: str, *, wrong: int = 0, lines: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(message)
        self.wrong = wrong
        """Number of wrong lines."""
        self.lines = tuple(lines)
        """The first wrong lines: number and what is wrong."""


class NoSuchJob(ChoraleError):
    """The job's id is unknown, or the job's retention is over."""


class WrongJobState(ChoraleError):
    """The state of the job does not allow this, such as to pause a job that has ended."""
