"""Finds the Redis server that `chorale up` started, through `<home>/redis.json`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import psutil
from redis import Redis, RedisError

ANSWER_LIMIT_S = 1.0


@dataclass(frozen=True, slots=True)
class RunningRedis:
    """The content of `redis.json`."""

    url: str
    pid: int
    started: str
    """ISO 8601."""


def find_redis_url(home: Path) -> str | None:
    """The address of the server that `chorale up` runs for this home; None if none answers."""
    running = read_running(home)
    return running.url if running is not None and answers(running) else None


def read_running(home: Path) -> RunningRedis | None:
    try:
        said = json.loads((home / "redis.json").read_text())
        return RunningRedis(str(said["url"]), int(said["pid"]), str(said["started"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def answers(running: RunningRedis) -> bool:
    """Whether this very process answers; its pid may have been reused by another program."""
    if not psutil.pid_exists(running.pid):
        return False
    try:
        with Redis.from_url(
            running.url, socket_timeout=ANSWER_LIMIT_S, socket_connect_timeout=ANSWER_LIMIT_S
        ) as client:
            return int(client.info("server")["process_id"]) == running.pid
    except (RedisError, ValueError, KeyError):
        return False
