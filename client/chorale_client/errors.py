"""The errors that the client raises."""

from __future__ import annotations

from pydantic import ValidationError


class ChoraleError(Exception):
    """Base class of the client's errors."""


class InvalidRequest(ChoraleError, ValueError):
    """A field of the request is wrong; nothing was enqueued."""

    @classmethod
    def from_validation(cls, error: ValidationError) -> InvalidRequest:
        """The message has for each field its path, what is wrong, and what is allowed."""
        lines = []
        faults = error.errors(include_url=False)
        for found in faults:
            loc = found["loc"]
            # pydantic drops wrong items and then calls the list too short.
            if found["type"] == "too_short" and any(
                one["loc"][: len(loc)] == loc != one["loc"] for one in faults
            ):
                continue
            message = found["msg"].removeprefix("Value error, ").replace("valid tuple", "valid list")
            if found["type"] == "extra_forbidden":
                message = "unknown field"
            lines.append(f"{'.'.join(map(str, loc)) or 'request'}: {message.replace('Tuple', 'List', 1)}")
        return cls("; ".join(lines))


class RequestIdConflict(ChoraleError):
    """This request id was already used for a different request; choose another id."""


class NotEnded(ChoraleError):
    """The request has not ended yet and goes on; ask again with its id."""


class UnknownRequest(ChoraleError):
    """The id is unknown: the request was never sent, or its answer has expired."""

    def __init__(
        self, request_id: str, why: str = "it was never sent here, or its answer is kept no longer"
    ) -> None:
        super().__init__(f"nothing is known of {request_id!r}: {why}")


class ServiceUnavailable(ChoraleError):
    """Redis or the broker cannot be reached.  The message says whether the request was accepted before."""


class NoRoom(ServiceUnavailable):
    """Documents were refused: the broker, a Redis, reserves the rest of its memory for requests."""

    def __init__(self, percent: int, waiting: int) -> None:
        super().__init__(
            f"Redis has no room for these documents: {percent} % of its memory is in use, and {waiting:,} messages wait "
            "for the index workers; hand them in again later, or fewer at a time"
        )
        self.waiting = waiting
