"""The corpus generations that Redis tells readers."""

from __future__ import annotations

from contextlib import suppress

from cli.installation import Installation


def published(around: Installation, names: list[str]) -> dict[str, int]:
    """The generations as Redis has them, by namespace; those that nobody copied are left out."""
    from chorale_client.keys import GENERATION
    from redis import RedisError

    if around.redis is None or not names:
        return {}
    with suppress(RedisError):
        values = around.redis.mget([GENERATION + name for name in names])
        return {name: int(value) for name, value in zip(names, values, strict=True) if value is not None}
    return {}
