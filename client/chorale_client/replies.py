"""What both clients make of Redis' replies and errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic_core import from_json
from redis.exceptions import ConnectionError, RedisError, ResponseError, TimeoutError

from chorale_client.answer import Answer
from chorale_client.errors import ServiceUnavailable

PASSING = (ConnectionError, TimeoutError)
"""Errors after which the same command may succeed on a new connection."""


def read_answer(result: bytes) -> Answer:
    """The answer in a Celery result document."""
    return Answer.model_validate(from_json(result)["result"])


def unavailable(error: Exception, *, accepted: str | None = None) -> ServiceUnavailable:
    """`accepted` is the id of a request that the ledger has."""
    what = "Redis refuses" if isinstance(error, ResponseError) else "Redis does not answer"
    later = f"; {accepted} was accepted, its answer can be asked for later" if accepted else ""
    return ServiceUnavailable(f"{what}: {str(error) or 'no reply in time'}{later}")


@contextmanager
def redis_errors_translated() -> Iterator[None]:
    """Errors of Redis in it become ServiceUnavailable."""
    try:
        yield
    except RedisError as error:
        raise unavailable(error) from error
