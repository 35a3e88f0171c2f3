"""The default time limit of a request: its configuration's own, if the pipeline declares one.

Callers have no pipeline file, so the workers publish its time limits in Redis.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import cast

from redis import Redis
from redis.exceptions import RedisError

from chorale_client.keys import TIMEOUTS
from chorale_client.request import Request

KNOWN_FOR_S = 5.0


def in_its_time(request: Request, timeouts_s: Mapping[str, float]) -> Request:
    """The request with its `timeout_s`.  `timeouts_s` is by configuration; `""` is the default configuration."""
    own_s = timeouts_s.get(request.configuration or "")
    if own_s is None or "timeout_s" in request.model_fields_set:
        return request
    filled = request.model_copy(update={"timeout_s": own_s})
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
    """Thread-safe.  Reads Redis every KNOWN_FOR_S seconds; without an answer the last known values hold."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._known: dict[str, float] = {}
        self._until_s = 0.0

    def applied(self, request: Request) -> Request:
        return (
            request if "timeout_s" in request.model_fields_set else in_its_time(request, self._timeouts_s())
        )

    def _timeouts_s(self) -> dict[str, float]:
        with self._lock:
            if time.monotonic() < self._until_s:
                return self._known
        try:
            found = cast("dict[bytes, bytes]", self._client.hgetall(TIMEOUTS))
            known = {name.decode(): float(value) for name, value in found.items()}
        except (RedisError, ValueError):
            known = self._known
        with self._lock:
            self._known, self._until_s = known, time.monotonic() + KNOWN_FOR_S
        return known
