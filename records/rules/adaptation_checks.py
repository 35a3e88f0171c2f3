"""The last check of the grades of each namespace, for each configuration whose weights adapt: what `chorale status` shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from chorale_client.keys import ADAPTED
from pydantic_core import from_json
from redis import Redis


@dataclass(frozen=True, slots=True)
class AdaptationCheck:
    """The last check of the grades of a namespace for one configuration."""

    configuration: str
    namespace: str
    at_ms: int
    counted: int
    """The grades that there were when weights were last chosen, or kept."""
    outcome: str
    """What was done, or why nothing."""


def read_adaptation_checks(redis: Redis) -> list[AdaptationCheck]:
    """By configuration and namespace.  Raises RedisError."""
    written = cast("dict[bytes, bytes]", redis.hgetall(ADAPTED))
    return [AdaptationCheck(**from_json(check)) for _, check in sorted(written.items())]
