"""The default time limit of a request: its configuration's own, if the pipeline declares one.

Callers have no pipeline file, so the workers publish its time limits in Redis.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

from chorale_client.keys import TIMEOUTS
from chorale_client.request import Request
from chorale_client.sans_io import Exchange

KNOWN_FOR_S = 5.0


def with_default_timeout(request: Request, timeouts_s: Mapping[str, float]) -> Request:
    """The request with its `timeout_s`.  `timeouts_s` is by configuration; `""` is the default configuration."""
    default_s = timeouts_s.get(request.configuration or "")
    if default_s in (None, request.timeout_s) or "timeout_s" in request.model_fields_set:
        return request
    filled = request.model_copy(update={"timeout_s": default_s})
    # The caller did not set it: the same request sent again stays equal, even if the pipeline changed its default.
    filled.model_fields_set.discard("timeout_s")
    return filled


def publish_timeouts(client: Redis, timeouts_s: Mapping[str, float]) -> None:
    """Replace the published time limits with those of this pipeline.  Raises RedisError."""
    with client.pipeline() as trip:
        trip.delete(TIMEOUTS)
        if timeouts_s:
            trip.hset(TIMEOUTS, mapping={name: str(value) for name, value in timeouts_s.items()})
        trip.execute()


class DefaultTimes:
    """Thread-safe.  Looked up every KNOWN_FOR_S seconds; without an answer the last known values hold."""

    def __init__(self) -> None:
        self._known: dict[str, float] = {}
        self._until_s = 0.0

    def needs_redis(self, request: Request) -> bool:
        """Whether `apply` has to ask Redis for this request."""
        return "timeout_s" not in request.model_fields_set and time.monotonic() >= self._until_s

    def apply(self, request: Request) -> Exchange[Request]:
        """The request with its `timeout_s`."""
        if self.needs_redis(request):
            try:
                (reply,) = yield [("HGETALL", TIMEOUTS)]
                known = {name.decode(): float(value) for name, value in _pairs(reply)}
            except (RedisError, ValueError):
                known = self._known
            self._known, self._until_s = known, time.monotonic() + KNOWN_FOR_S
        return self.last_known(request)

    def last_known(self, request: Request) -> Request:
        """As `apply`, without Redis."""
        return with_default_timeout(request, self._known)


def _pairs(reply: Any) -> Iterable[tuple[bytes, bytes]]:
    """A hash, which redis-py makes a dict, and Redis a flat list."""
    return reply.items() if isinstance(reply, Mapping) else zip(reply[::2], reply[1::2], strict=True)
