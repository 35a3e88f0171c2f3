"""Errors as `application/problem+json` (RFC 9457), with `code`, `field`, `request_id` and `retryable`."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from chorale_client.errors import (
    ChoraleError,
    InvalidRequest,
    NotEnded,
    QueueFull,
    RequestIdConflict,
    ServiceUnavailable,
    UnknownRequest,
    describe_faults,
)
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from api.waiting import CallerGone
from models.errors import ServiceError, WrongDeclaration
from records.jobs.job import JobsUnavailable, NoSuchJob, WrongState
from records.jobs.result_formats import ParquetMissing
from records.judgements.store import NotRecorded
from records.keys.grant import Forbidden, NamespaceOutOfScope, OutOfScope
from records.keys.key_store import KeysUnavailable, NoSuchKey
from records.rules.store import RulesChanged, RulesUnavailable

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 1
"""Seconds after which a temporary error is worth another attempt."""

TITLES = {
    "malformed": (400, "The body or a header cannot be read", False),
    "unauthenticated": (401, "No key, or a wrong one", False),
    "forbidden": (403, "The key lacks a scope", False),
    "not_found": (404, "Nothing here has this name", False),
    "method_not_allowed": (405, "The resource has no such method", False),
    "conflict": (409, "The state of the resource does not allow this", False),
    "being_created": (409, "An equal call is being served", True),
    "too_large": (413, "The body is too large", False),
    "unsupported_media_type": (415, "The body is not of a type that is read here", False),
    "invalid": (422, "A value is not allowed", False),
    "key_reused": (422, "The Idempotency-Key was used for another request", False),
    "changed": (412, "The resource has another version", False),
    "rate_limited": (429, "The key has used its calls of this minute", True),
    "refused": (429, "Too much is waiting already", True),
    "internal": (500, "An error of the service", False),
    "failed": (503, "The search ended without an answer", False),
    "no_room": (503, "Redis has no room", True),
    "unavailable": (503, "A server of the installation does not answer", True),
}
"""HTTP status, title and whether the same call is worth repeating, by code."""


class ProblemDocument(BaseModel):
    """The body of every error."""

    type: str = Field(description="`urn:chorale:problem:<code>`")
    title: str
    status: int
    detail: str
    code: str
    field: str | None = Field(
        None, description="The field of the body, or the parameter or header, that is wrong"
    )
    request_id: str | None = Field(None, description="The search, if it is known")
    retryable: bool = Field(description="Whether the same call is worth repeating")


class Problem(Exception):
    """An error that a route raises; `members` are further members of the document."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        field: str | None = None,
        request_id: str | None = None,
        retryable: bool | None = None,
        headers: Mapping[str, str] | None = None,
        **members: Any,
    ) -> None:
        super().__init__(detail)
        self.status, self.title, usually = TITLES[code]
        self.document: dict[str, Any] = {
            "type": f"urn:chorale:problem:{code}",
            "title": self.title,
            "status": self.status,
            "detail": detail,
            "code": code,
            "field": field,
            "request_id": request_id,
            "retryable": usually if retryable is None else retryable,
            **members,
        }
        self.headers = dict(headers or {})
        if self.document["retryable"]:
            self.headers.setdefault("Retry-After", str(RETRY_AFTER_S))


def not_found() -> Problem:
    """One text for an unknown id and for another tenant's: a difference would show who else asks."""
    return Problem("not_found", "nothing is known of this id")


CODES: Mapping[type[Exception], str] = {
    QueueFull: "no_room",
    ServiceUnavailable: "unavailable",
    RequestIdConflict: "key_reused",
    InvalidRequest: "invalid",
    WrongState: "conflict",
    WrongDeclaration: "invalid",
    ParquetMissing: "invalid",
    JobsUnavailable: "unavailable",
    NotEnded: "conflict",
    Forbidden: "forbidden",
    KeysUnavailable: "unavailable",
    RulesUnavailable: "unavailable",
    RulesChanged: "changed",
    RedisError: "unavailable",
    SQLAlchemyError: "unavailable",
}
"""The code by class of the exception; the first class that fits decides."""

_BY_STATUS = {status: code for code, (status, _, _) in reversed(TITLES.items())}
"""The first code of each status."""


def problem_of(error: Exception) -> Problem:
    """The problem that an exception becomes.  Errors of servers say nothing of their addresses."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, NamespaceOutOfScope):
        # The text is the same for each name, as that of `not_found`.
        why = "there is no such namespace for this key; `GET /v1/namespaces` lists those that it may use"
        return Problem("not_found", f"namespace: {why}", field="namespace")
    if isinstance(error, UnknownRequest | NoSuchJob | NoSuchKey | NotRecorded | OutOfScope):
        return not_found()
    if isinstance(error, RequestValidationError):
        return _validation_problem(error)
    if isinstance(error, HTTPException):
        code = _BY_STATUS.get(error.status_code, "internal" if error.status_code >= 500 else "malformed")
        return Problem(code, str(error.detail), headers=error.headers)
    code = next((code for kind, code in CODES.items() if isinstance(error, kind)), "internal")
    if isinstance(error, InvalidRequest):
        return Problem(code, str(error), field=field_of(str(error)))
    if code == "unavailable":
        log.warning("%s: %s", type(error).__name__, error)
        return Problem(code, "a server of the installation does not answer; ask again")
    if isinstance(error, ChoraleError | ServiceError) and code != "internal":
        return Problem(code, str(error))
    log.error("unexpected error", exc_info=error)
    return Problem("internal", "an unexpected error; the log of the service has it")


def field_of(message: str) -> str | None:
    """The field that a message `field: what is wrong` names."""
    field, colon, _ = message.partition(": ")
    return field if colon and field and " " not in field else None


def _validation_problem(error: RequestValidationError) -> Problem:
    faults = error.errors()
    for fault in faults:
        if fault["type"] == "json_invalid":
            return Problem("malformed", f"the body is not JSON: {fault.get('ctx', {}).get('error', '')}")
    place = str(faults[0]["loc"][0])
    detail = describe_faults([{**fault, "loc": fault["loc"][1:]} for fault in faults], place=place)
    return Problem("invalid", detail, field=field_of(detail))


async def answer_problem(_: Request, error: Exception) -> Response:
    """The response to an exception."""
    return response_of(problem_of(error))


def response_of(problem: Problem) -> Response:
    return Response(
        json.dumps(problem.document), problem.status, headers=problem.headers, media_type=MEDIA_TYPE
    )


def answer_with_problems(app: FastAPI) -> None:
    """Every error of this app becomes a problem document."""
    app.add_exception_handler(CallerGone, lambda *_: Response(status_code=499))  # nobody reads it
    for kind in (
        Problem,
        HTTPException,
        RequestValidationError,
        ChoraleError,
        ServiceError,
        RedisError,
        SQLAlchemyError,
        Exception,
    ):
        app.add_exception_handler(kind, answer_problem)
