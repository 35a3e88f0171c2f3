"""Who is alive and what waits, as Redis knows it at this moment; read, never changed."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chorale_client.keys import HEARTBEAT, MOMENTS, SWEEPER, entry_key

if TYPE_CHECKING:
    from redis import Redis


@dataclass(frozen=True, slots=True)
class Worker:
    """A process by its heartbeat."""

    name: str
    queues: tuple[str, ...]
    """Empty for a sweeper."""
    is_ready: bool
    pid: int | None
    age_s: float
    """Since its last sign of life."""
    wire: int | None
    """Version of the wire format that it writes."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A queue."""

    queue: str
    length: int | None
    """None where the broker does not say."""
    oldest_s: float | None
    """How long the request of its oldest message is in flight; None where it is empty or cannot be known."""


def read_workers(redis: Redis) -> list[Worker]:
    """All of them by name; raises RedisError."""
    keys = sorted(redis.scan_iter(HEARTBEAT + "*", count=1_000))
    if not keys:
        return []
    now_ms = _now_ms(redis)
    workers = []
    for key, value in zip(keys, redis.mget(keys), strict=True):
        try:
            said: dict[str, Any] = json.loads(value or b"null")
            workers.append(
                Worker(
                    name=key.decode().removeprefix(HEARTBEAT),
                    queues=tuple(said["queues"]),
                    is_ready=said["ready"] is True,
                    pid=said.get("pid"),
                    age_s=max(0.0, now_ms - float(said["at"])) / 1000,
                    wire=said.get("wire"),
                )
            )
        except (ValueError, KeyError, TypeError):
            # It expired since, or another version wrote it.
            continue
    return workers


def read_queues(redis: Redis, queues: Sequence[str], *, broker_url: str | None = None) -> list[Waiting]:
    """Length and age of each; `broker_url` is Celery's broker where that is another server than `redis`."""
    if broker_url is not None:
        return [Waiting(queue, length, None) for queue, length in _lengths(broker_url, queues).items()]
    now_ms = _now_ms(redis)
    trip = redis.pipeline(transaction=False)
    for queue in queues:
        # Messages are pushed on the left and taken from the right.
        trip.llen(queue)
        trip.lindex(queue, -1)
    found = trip.execute()
    waiting = []
    for queue, length, oldest in zip(queues, found[::2], found[1::2], strict=True):
        accepted_at_ms = _accepted_at_ms(redis, oldest)
        age_s = None if accepted_at_ms is None else max(0.0, now_ms - accepted_at_ms) / 1000
        waiting.append(Waiting(queue, length, age_s))
    return waiting


def in_flight(redis: Redis) -> int:
    """How many requests have begun and not ended."""
    return int(redis.zcard(MOMENTS))


def is_swept(redis: Redis) -> bool:
    """Whether some sweeper acts at this moment; the lease of one lasts 150 ms."""
    return bool(redis.exists(SWEEPER))


def _accepted_at_ms(redis: Redis, message: bytes | None) -> float | None:
    """A message has no date; the request that it belongs to has, while that is in flight."""
    try:
        body = json.loads(b64decode(json.loads(message or b"null")["body"]))
        said = redis.hget(entry_key(str(body[1]["request_id"])), "accepted_at")
        return None if said is None else float(said)
    except (ValueError, KeyError, TypeError, IndexError):
        return None


def _lengths(broker_url: str, queues: Sequence[str]) -> dict[str, int | None]:
    from chorale_client.redis_urls import celery_url
    from kombu import Connection

    lengths: dict[str, int | None] = dict.fromkeys(queues)
    with Connection(celery_url(broker_url), connect_timeout=2) as connection:
        try:
            for queue in queues:
                # A channel is closed by its first error, here a queue that nobody declared yet.
                with connection.channel() as channel:
                    try:
                        lengths[queue] = channel.queue_declare(queue, passive=True).message_count
                    except connection.channel_errors:
                        continue
        except (OSError, *connection.connection_errors):
            pass
    return lengths


def _now_ms(redis: Redis) -> float:
    seconds, microseconds = redis.time()
    return float(seconds) * 1000 + float(microseconds) / 1000
