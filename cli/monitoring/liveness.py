"""Who is alive and what waits, as Redis knows it at this moment; read, never changed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chorale_client.keys import HEARTBEAT, MOMENTS, SWEEPER

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
    tasks: tuple[str, ...] = ()
    """Ids of what it has in hand."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A queue."""

    queue: str
    length: int | None
    """None where the broker does not say."""
    oldest_s: float | None
    """How long its oldest message has waited; None where it is empty or that cannot be known."""
    workers: int | None = None
    """Who consumes from it, by the broker or by the signs of life that were given; None where nobody says."""


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
                    tasks=tuple(said.get("tasks", ())),
                )
            )
        except (ValueError, KeyError, TypeError):
            # It expired since, or another version wrote it.
            continue
    return workers


def read_queues(
    redis: Redis, queues: Sequence[str], *, broker_url: str | None = None, workers: Sequence[Worker] = ()
) -> list[Waiting]:
    """Length, age and workers of each; `broker_url` is Celery's broker where that is another server than `redis`,
    and one that does not answer, or refuses us, says nothing.  Raises RedisError."""
    from chorale_client.publisher import BROKER_ERRORS

    from tasks.sweeping.queues import QueueState, queue_states, with_workers

    try:
        states = queue_states(redis, queues, broker_url=broker_url)
    except BROKER_ERRORS:
        if broker_url is None:
            raise
        states = dict.fromkeys(queues, QueueState(None))
    serving = Counter(queue for worker in workers for queue in worker.queues)
    counted = with_workers(states, {queue: serving[queue] for queue in queues} if workers else {})
    return [Waiting(queue, one.length, one.age_s, one.workers) for queue, one in counted.items()]


def in_flight(redis: Redis) -> int:
    """How many requests have begun and not ended."""
    return int(redis.zcard(MOMENTS))


def is_swept(redis: Redis) -> bool:
    """Whether some sweeper acts at this moment; the lease of one lasts 150 ms."""
    return bool(redis.exists(SWEEPER))


def _now_ms(redis: Redis) -> float:
    seconds, microseconds = redis.time()
    return float(seconds) * 1000 + float(microseconds) / 1000
