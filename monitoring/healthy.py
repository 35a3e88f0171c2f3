"""Health checks of containers: `python -m monitoring.healthy alive NAME`, and `ready NAME`.

`alive` asks whether the worker NAME lives, `ready` whether it takes work.  A container whose worker does not live is
restarted.  While Redis is away or a model is missing a restart does not help: then a worker lives and is not ready.

The check runs where the worker runs.  A heartbeat of another host is that of an earlier container, which was killed.
"""

from __future__ import annotations

import socket
import sys

from config.home import find_redis_url
from config.settings import load_settings
from monitoring.heartbeats import RedisHeartbeats

QUESTIONS = ("alive", "ready")


def complaint(question: str, name: str) -> str | None:
    """Why the worker `name` is not alive, or not ready; None if it is, or if nobody can tell whether it is alive.

    `question` is one of QUESTIONS.
    """
    settings = load_settings()
    url = settings.redis_url or find_redis_url(settings.home)
    if url is None:
        why = "there is no Redis server: set CHORALE_REDIS_URL, or run `chorale up`"
        return why if question == "ready" else None
    beats = RedisHeartbeats(url)([name])
    if name not in beats:
        return f"no sign of life of a worker {name!r}"
    beat = beats[name]
    if question == "alive":
        return None
    if beat is None:
        return "Redis does not answer"
    if beat.about.get("host", here := socket.gethostname()) != here:
        return f"the heartbeat of {name} is that of another host, {beat.about['host']}"
    if beat.is_ready:
        return None
    return ": ".join([f"{name} is not ready yet", *filter(None, ["; ".join(beat.missing)])])


def main(arguments: list[str]) -> str | None:
    if len(arguments) != 2 or arguments[0] not in QUESTIONS:
        return f"usage: python -m monitoring.healthy {'|'.join(QUESTIONS)} NAME"
    return complaint(*arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
