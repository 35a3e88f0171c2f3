"""The last look at the grades of each namespace, for each configuration whose weights adapt: what `chorale status` shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from chorale_client.keys import ADAPTED
from pydantic_core import from_json
from redis import Redis


@dataclass(frozen=True, slots=True)
class Look:
    """The last look at the grades of a namespace for one configuration."""

    configuration: str
    namespace: str
    at_ms: int
    counted: int
    """The grades that there were when weights were last chosen, or kept."""
    outcome: str
    """What was done, or why nothing."""


def read_looks(redis: Redis) -> list[Look]:
    """By configuration and namespace.  Raises RedisError."""
    written = cast("dict[bytes, bytes]", redis.hgetall(ADAPTED))
    return [Look(**from_json(look)) for _, look in sorted(written.items())]
