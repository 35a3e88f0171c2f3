"""The exchanges of a caller with Redis, without a connection: the synchronous and the asynchronous client share them.

An exchange is a generator.  It yields what to send in one round trip, gets the replies in the same order, and returns
its outcome.  A RedisError of the trip is raised inside the generator.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from redis.exceptions import ConnectionError, RedisError, ResponseError, TimeoutError

from chorale_client.answer import Answer, Degradation
from chorale_client.connections.cluster import NO_CLUSTER, is_of_cluster
from chorale_client.errors import ServiceUnavailable, safe_repr
from chorale_client.wire_names import Reason, Stage, Status

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Script:
    """A call of `chorale_client/scripts/<name>.lua`."""

    name: str
    keys: Sequence[Any]
    args: Sequence[Any]


Command = Script | tuple[Any, ...]
"""A script, or the words of a Redis command."""
RoundTrip = Sequence[Command]
Exchange = Generator[RoundTrip, Sequence[Any], T]


def run_exchange(steps: Exchange[T], send: Callable[[RoundTrip], Sequence[Any]]) -> T:
    """`send` makes one round trip.  Raises what `send` and the steps raise."""
    try:
        trip = next(steps)
        while True:
            try:
                replies = send(trip)
            except RedisError as error:
                trip = steps.throw(error)
            else:
                trip = steps.send(replies)
    except StopIteration as end:
        return cast("T", end.value)


TRANSIENT = (ConnectionError, TimeoutError)
"""Errors after which the same command may succeed on a new connection."""


def result_document(result: bytes) -> dict[str, Any]:
    """A Celery result document; empty if it is none."""
    try:
        document = from_json(result)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


class _ResultDocument(BaseModel):
    result: Answer


def read_answer(request_id: str, result: bytes) -> Answer:
    """The answer in a Celery result document.

    Celery itself, or another program, may have written an end without an answer under the request's id: then the request is
    `cancelled` if it was revoked, and `failed` otherwise.
    """
    try:
        return _ResultDocument.model_validate_json(result).result
    except ValidationError:
        state = safe_repr(result_document(result).get("status"))
    status, reason, detail = Status.FAILED, Reason.INVALID_ANSWER, f"another program wrote an end ({state})"
    if state == "'REVOKED'":
        status, reason, detail = Status.CANCELLED, Reason.CANCELLED, "revoked"
    degraded = Degradation(where=Stage.PLAN, reason=reason, detail=detail)
    return Answer(request_id=request_id, status=status, degraded=(degraded,))


def unavailable(error: Exception, *, accepted: str | None = None) -> ServiceUnavailable:
    """`accepted` is the id of a request that the ledger has."""
    if is_of_cluster(error):
        return ServiceUnavailable(f"{NO_CLUSTER}: give the address of one Redis server ({error})")
    what = "Redis refuses" if isinstance(error, ResponseError) else "Redis does not answer"
    later = f"; {accepted} was accepted, its answer can be asked for later" if accepted else ""
    return ServiceUnavailable(f"{what}: {str(error) or 'no reply in time'}{later}", accepted=accepted)


@contextmanager
def redis_errors_translated() -> Iterator[None]:
    """Errors of Redis in it become ServiceUnavailable."""
    try:
        yield
    except RedisError as error:
        raise unavailable(error) from error
