"""The heartbeats that workers and sweepers leave in Redis (`tasks.worker.heartbeat` writes them)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import redis
from chorale_client.keys import HEARTBEAT

from config.redis_client import is_transient, open_redis, redis_ms

ANSWER_LIMIT_S = 1.0
PROBE = f"{HEARTBEAT}?"
"""A key that never exists; a supervisor tries to replace its value, to see whether the workers can write."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The last sign of life of a process."""

    name: str
    age_s: float
    is_ready: bool
    queues: tuple[str, ...] = ()
    """Empty for a sweeper."""
    pid: int | None = None
    missing: tuple[str, ...] = ()
    """Why the process is not ready."""
    wire: int | None = None
    """Version of the wire format that the process writes."""
    tasks: tuple[str, ...] = ()
    """Ids of the tasks that it works on."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """The report of `tasks.worker.heartbeat`; empty until the process takes messages."""

    @property
    def is_serving(self) -> bool:
        """Whether the process takes messages, perhaps without its model."""
        return self.is_ready or bool(self.about)


def read_heartbeats(client: redis.Redis) -> list[Heartbeat]:
    """The heartbeats of all processes by name; raises RedisError."""
    keys = sorted(client.scan_iter(HEARTBEAT + "*", count=1_000))
    if not keys:
        return []
    now_ms, values = redis_ms(client), client.mget(keys)
    names = (key.decode().removeprefix(HEARTBEAT) for key in keys)
    beats = (parse_heartbeat(name, value, now_ms) for name, value in zip(names, values, strict=True))
    return [beat for beat in beats if beat is not None]


def parse_heartbeat(name: str, value: bytes | str | None, now_ms: float) -> Heartbeat | None:
    """The heartbeat in the Redis value of the process `name`; `now_ms` is by Redis's clock.

    Returns None for a key that has expired, and for what is no heartbeat.
    """
    try:
        wire = json.loads(value or b"null")
        return Heartbeat(
            name,
            age_s=max(0.0, now_ms - float(wire["at"])) / 1_000,
            is_ready=wire["ready"] is True,
            queues=tuple(wire.get("queues", ())),
            pid=wire.get("pid"),
            missing=tuple(wire.get("missing", ())),
            wire=wire.get("wire"),
            tasks=tuple(wire.get("tasks", ())),
            about=wire.get("about") or {},
        )
    except (ValueError, KeyError, TypeError):
        return None


class RedisHeartbeats:
    """Reads the heartbeats of some processes in one round trip.

    `server` names the process that is the Redis server itself.  Its heartbeat is that it answers, so a hung server is
    restarted.  While it does not answer, or takes no writes, nothing is known of the workers, and none of them counts as hung.
    """

    def __init__(self, url: str, *, server: str | None = None) -> None:
        self._client = open_redis(url, limit_s=ANSWER_LIMIT_S)
        self._server = server

    def __call__(self, names: Sequence[str]) -> Mapping[str, Heartbeat | None]:
        """Heartbeats by name.  A process without a heartbeat is left out; None: it is unknown whether there is one."""
        workers = [name for name in names if name != self._server]
        try:
            now_ms = redis_ms(self._client)
            values = self._client.mget([HEARTBEAT + name for name in workers] or ["-"])
            takes_writes = self._takes_writes()
        except redis.BusyLoadingError:
            # The server reads its append-only file: it is alive, and a large file takes long.
            return {**dict.fromkeys(workers), **self._server_heartbeat(is_ready=False)}
        except redis.RedisError:
            return dict.fromkeys(workers)
        beats = {
            name: beat
            for name, value in zip(workers, values, strict=False)
            if (beat := parse_heartbeat(name, value, now_ms)) is not None
        }
        return {
            **(beats if takes_writes else dict.fromkeys(workers)),
            **self._server_heartbeat(is_ready=True),
        }

    def _takes_writes(self) -> bool:
        try:
            self._client.set(PROBE, 1, xx=True)
        except redis.ResponseError as error:
            return not is_transient(error)
        return True

    def _server_heartbeat(self, *, is_ready: bool) -> dict[str, Heartbeat]:
        return {self._server: Heartbeat(self._server, 0.0, is_ready)} if self._server else {}
