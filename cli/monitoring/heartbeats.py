"""The heartbeats that workers leave in Redis, as the supervisor reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import redis
from chorale_client.keys import HEARTBEAT

ANSWER_LIMIT_S = 1.0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The last sign of life that a child gave."""

    age_s: float
    ready: bool


class RedisHeartbeats:
    """Reads all heartbeats in one round trip; `server` names the child that is the Redis server itself.

    Its heartbeat is its answer, so a hung server is restarted.  While it does not answer, nothing can be
    known of the workers, and none is taken for hung.
    """

    def __init__(self, url: str, *, server: str | None = None) -> None:
        self._client = redis.Redis.from_url(
            url, socket_timeout=ANSWER_LIMIT_S, socket_connect_timeout=ANSWER_LIMIT_S
        )
        self._server = server

    def __call__(self, names: Sequence[str]) -> Mapping[str, Heartbeat | None]:
        workers = [name for name in names if name != self._server]
        found: dict[str, Heartbeat | None] = dict.fromkeys(workers)
        try:
            seconds, microseconds = self._client.time()
            values = self._client.mget([HEARTBEAT + name for name in workers] or ["-"])
        except redis.BusyLoadingError:
            # Reading its append-only file: alive, and for a large one not soon ready.
            return found | ({self._server: Heartbeat(0.0, False)} if self._server else {})
        except redis.RedisError:
            return found
        now_ms = seconds * 1_000 + microseconds / 1_000
        beats = {
            name: beat
            for name, value in zip(workers, values, strict=False)
            if (beat := read_heartbeat(value, now_ms)) is not None
        }
        return beats | ({self._server: Heartbeat(0.0, True)} if self._server else {})


def read_heartbeat(value: bytes | str | None, now_ms: float) -> Heartbeat | None:
    """What `tasks.worker.heartbeat` wrote, `at` in milliseconds by Redis' clock; None for nothing or what is not JSON."""
    try:
        said = json.loads(value or b"null")
        return Heartbeat(max(0.0, now_ms - float(said["at"])) / 1_000, said["ready"] is True)
    except (ValueError, KeyError, TypeError):
        return None
