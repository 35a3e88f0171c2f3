"""Translating Weaviate's errors to a store's failures: one sentence that says what to do and contains no secret."""

from __future__ import annotations

import re
from collections.abc import Iterator

import grpc  # type: ignore[import-untyped]
import httpx
from weaviate import exceptions as weaviate_errors

from models.errors import (
    BadIndex,
    InvalidAnswer,
    NotConfigured,
    StageFailure,
    StoreTimeout,
    StoreUnavailable,
    Unauthorised,
)

_CODES = {
    grpc.StatusCode.UNAVAILABLE: StoreUnavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: StoreTimeout,
    grpc.StatusCode.UNAUTHENTICATED: Unauthorised,
    grpc.StatusCode.PERMISSION_DENIED: Unauthorised,
}
_STATUSES = {
    401: Unauthorised,
    403: Unauthorised,
    502: StoreUnavailable,
    503: StoreUnavailable,
    504: StoreTimeout,
}
_MESSAGES: tuple[tuple[str, type[StageFailure]], ...] = (
    (r"tenant not found|tenant.* not active|could not find class|class not found|no such prop", BadIndex),
    (r"vector lengths don't match|vector dimensions do not match", InvalidAnswer),
    (r"not supported. Please use Weaviate version", NotConfigured),
)
_REFUSED = (weaviate_errors.InsufficientPermissionsError, weaviate_errors.AuthenticationFailedError)
_UNREACHABLE = (
    httpx.TransportError,
    weaviate_errors.WeaviateConnectionError,
    weaviate_errors.WeaviateStartUpError,
    weaviate_errors.WeaviateGRPCUnavailableError,
    ConnectionError,
)
_ADVICE: dict[type[StageFailure], str] = {
    StoreUnavailable: "does not answer: is it running, and are `url` and `grpc_port` right?",
    StoreTimeout: "did not answer in time",
    Unauthorised: "refused the credentials: check `api_key_env` and what that key may do",
    BadIndex: "does not have what was asked for: `chorale index` creates it",
    InvalidAnswer: "has vectors of another dimension: index again with the present embedder",
    NotConfigured: "is too old",
    StageFailure: "failed",
}


def unreachable(url: str, why: str) -> str:
    return f"Weaviate at {url} {_ADVICE[StoreUnavailable]} ({why})"


def failure_of(error: BaseException, url: str, *, is_quoted: bool = True) -> StageFailure:
    """The failure for an error that the client raised; quotes its text, or only the name of its class."""
    kind = _kind(error)
    said = _said(error) if is_quoted else type(error).__name__
    return kind(f"Weaviate at {url} {_ADVICE[kind]} ({said})")


def _kind(error: BaseException) -> type[StageFailure]:
    for one in _chain(error):
        if isinstance(one, grpc.aio.AioRpcError) and one.code() in _CODES:
            return _CODES[one.code()]
        if isinstance(one, _REFUSED):
            return Unauthorised
        if isinstance(one, weaviate_errors.UnexpectedStatusCodeError) and one.status_code in _STATUSES:
            return _STATUSES[one.status_code]
    for pattern, kind in _MESSAGES:
        if re.search(pattern, str(error)):
            return kind
    if any(isinstance(one, (TimeoutError, httpx.TimeoutException)) for one in _chain(error)):
        return StoreTimeout
    if any(isinstance(one, _UNREACHABLE) for one in _chain(error)):
        return StoreUnavailable
    return StageFailure


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and its causes, one of which has the status."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _said(error: BaseException) -> str:
    """The last part of the message, which Weaviate nests six levels deep, on one line."""
    lines = " ".join(str(error).split()).removesuffix(".")
    return lines.rsplit(": ", 2)[-1][:200] or type(error).__name__
