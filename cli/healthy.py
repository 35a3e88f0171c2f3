"""`python -m cli.healthy NAME`: does the worker NAME live, and is it ready?  For the health checks of containers."""

from __future__ import annotations

import sys

from cli.heartbeats import RedisHeartbeats
from config.running_redis import find_redis_url
from config.settings import load_settings

STALE_AFTER_S = 12.0


def complaint(name: str) -> str | None:
    """Why the worker `name` is not healthy; None when it is."""
    settings = load_settings()
    url = settings.redis_url or find_redis_url(settings.home)
    if url is None:
        return "there is no Redis server: set CHORALE_REDIS_URL, or start one with `chorale up`"
    beats = RedisHeartbeats(url)([name])
    if name not in beats:
        return f"no sign of life of a worker {name!r}"
    beat = beats[name]
    if beat is None:
        return "Redis does not answer"
    if beat.age_s > STALE_AFTER_S:
        return f"the last sign of life of {name} is {beat.age_s:.0f} s old"
    return None if beat.ready else f"{name} is not ready yet"


if __name__ == "__main__":
    sys.exit(complaint(sys.argv[1]))
