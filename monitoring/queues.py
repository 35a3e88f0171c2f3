"""What waits on each queue, for `chorale status`, the doctor, admission and producers that must slow down.

If the broker is the ledger's Redis, its lists are read.  Any other broker is asked by kombu's passive declaration.
"""

from __future__ import annotations

import json
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol

from chorale_client.connections.urls import broker_tls, celery_url
from chorale_client.keys import WAKEUPS, entry_key
from chorale_client.protocol_constants import PROTOCOL
from chorale_client.wire_names import TASK_FUSE, TASK_RETRIEVE, TASK_SEARCH
from redis import Redis

from ledger import ledger_scripts
from monitoring.heartbeats import Heartbeat

CONNECT_LIMIT_S = 2.0
_SEARCHES = TASK_SEARCH.format(kind="")


@dataclass(frozen=True, slots=True)
class QueueState:
    length: int | None
    """Messages that no worker has taken; None if that is unknown."""
    age_s: float | None = None
    """How long the oldest message has waited for a worker; None if the queue is empty, or if this is unknown because the
    message's request has ended.  With a broker that shows no messages: the time since the queue was last seen empty or
    shrinking."""
    workers: int | None = None
    """Number of consumers; None if the number is unknown."""
    oldest: str | None = None
    """The tag of the oldest message: while it stays, nobody serves the queue."""


class Queues(Protocol):
    def states(self) -> dict[str, QueueState]:
        """The state by queue.  Raises RedisError, or `chorale_client.publisher.BROKER_ERRORS` for another broker."""
        ...

    def close(self) -> None: ...


def open_queues(redis: Redis, queues: Sequence[str], *, broker_url: str | None = None) -> Queues:
    """`broker_url` is Celery's broker if that is another server than `redis`."""
    return ListedQueues(redis, queues) if broker_url is None else DeclaredQueues(broker_url, queues)


def queue_states(
    redis: Redis, queues: Sequence[str], *, broker_url: str | None = None
) -> dict[str, QueueState]:
    """Reads the queues once.  A caller that reads them repeatedly keeps the object that `open_queues` returns."""
    with closing(open_queues(redis, queues, broker_url=broker_url)) as opened:
        return opened.states()


def read_queues(
    redis: Redis, queues: Sequence[str], *, broker_url: str | None = None, workers: Sequence[Heartbeat] = ()
) -> dict[str, QueueState]:
    """The state of each queue; `broker_url` is Celery's broker where that is another server than `redis`.

    Where the broker counts no consumers, the `workers` that serve a queue are counted.  A broker that does not answer,
    or refuses the login, leaves the lengths unknown.  Raises RedisError.
    """
    if broker_url is None:
        states = queue_states(redis, queues)
    else:
        from chorale_client.publisher import BROKER_ERRORS

        try:
            states = queue_states(redis, queues, broker_url=broker_url)
        except BROKER_ERRORS:
            states = dict.fromkeys(queues, QueueState(None))
    return with_workers(states, workers)


def with_workers(states: dict[str, QueueState], workers: Sequence[Heartbeat]) -> dict[str, QueueState]:
    """The states with the number of workers that serve each queue, where the broker counts no consumers."""
    if not workers:
        return states
    serving = Counter(queue for worker in workers for queue in worker.queues)
    return {
        queue: state if state.workers is not None else replace(state, workers=serving[queue])
        for queue, state in states.items()
    }


class ListedQueues:
    """The lists of the ledger's Redis: lengths and oldest messages in one round trip, ages in a second one."""

    def __init__(self, redis: Redis, queues: Sequence[str]) -> None:
        self._redis = redis
        self._queues = list(queues)
        self._scripts = ledger_scripts(redis)

    def states(self) -> dict[str, QueueState]:
        now_ms, *answers = self._scripts.run("queue_lengths", keys=self._queues)
        lists = dict(zip(self._queues, answers, strict=True))
        oldest = {queue: read_message(message) for queue, (_, message) in lists.items() if message}
        since_ms = self._waiting_since_ms([message for message in oldest.values() if message], int(now_ms))
        states = {}
        for queue, (length, _) in lists.items():
            message = oldest.get(queue)
            begun_ms = since_ms.get(message.tag) if message else None
            age_s = None if begun_ms is None else max(0.0, int(now_ms) - begun_ms) / 1000
            states[queue] = QueueState(int(length), age_s, oldest=message.tag if message else None)
        return states

    def close(self) -> None:
        """Does nothing: the client is the caller's."""

    def _waiting_since_ms(self, messages: Sequence[Message], now_ms: int) -> dict[str, float | None]:
        if not messages:
            return {}
        trip = self._redis.pipeline(transaction=False)
        for message in messages:
            fields = [
                "state",
                "accepted_at",
                "fuse_sent",
                "plan",
                f"limit:{message.branch}",
                f"status:{message.branch}",
            ]
            trip.hmget(entry_key(message.request_id), fields)
            trip.zscore(WAKEUPS, message.request_id)
        answers = trip.execute()
        return {
            message.tag: _since_ms(message, fields, moment, now_ms)
            for message, fields, moment in zip(messages, answers[::2], answers[1::2], strict=True)
        }


@dataclass(frozen=True, slots=True)
class Message:
    """The ids in a queued message; `request_id` is empty if it belongs to no accepted request."""

    tag: str
    task: str
    request_id: str
    branch: str = ""


def read_message(raw: bytes) -> Message | None:
    """Read the JSON document on a list; None if it is no message of this service."""
    try:
        message: dict[str, Any] = json.loads(raw)
        arguments, kwargs, _ = json.loads(b64decode(message["body"]))
        tag, task = str(message["properties"]["delivery_tag"]), str(message["headers"]["task"])
        # A call by task name brings a whole request, which the ledger does not know yet.
        is_part_of_one = task in (TASK_RETRIEVE, TASK_FUSE) or task.startswith(_SEARCHES)
        if arguments or kwargs.get("request") is not None or not is_part_of_one:
            return Message(tag, task, "")
        return Message(tag, task, str(kwargs.get("request_id") or ""), str(kwargs.get("branch") or ""))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _since_ms(
    message: Message, fields: Sequence[bytes | None], moment: float | None, now_ms: int
) -> float | None:
    """When the message was put on its queue; None if its request no longer waits for it."""
    state, accepted_at, fuse_sent, plan, limit, status = fields
    if message.task == TASK_RETRIEVE:
        return float(accepted_at) if state == b"accepted" and accepted_at else None
    if state != b"planned":
        return None
    if message.task == TASK_FUSE:
        return _published_ms(int(fuse_sent or 0), moment, now_ms)
    if status is not None or limit is None or plan is None:
        return None
    with suppress(ValueError, KeyError):
        limits_ms = {branch["name"]: int(branch["limit_ms"]) for branch in json.loads(plan)["branches"]}
        return float(limit) - limits_ms[message.branch]
    return None


def _published_ms(fuse_sent: int, moment: float | None, now_ms: int) -> float | None:
    """When the callback was published.  It has no date, but each publication moves the request's next moment a step."""
    if fuse_sent == 0 or moment is None:
        return None
    return min(moment, now_ms if fuse_sent >= PROTOCOL.fuses else moment) - PROTOCOL.fuse_every_ms * fuse_sent


class DeclaredQueues:
    """Any broker, through kombu.  Remembers earlier lengths, since such a broker shows no messages."""

    def __init__(self, broker_url: str, queues: Sequence[str]) -> None:
        from kombu import Connection

        from config.celery import is_redis

        self._connection = Connection(
            celery_url(broker_url), ssl=broker_tls(broker_url), connect_timeout=CONNECT_LIMIT_S
        )
        # kombu's virtual transports do not count consumers.
        self._counts_workers = not is_redis(celery_url(broker_url))
        self._queues = list(queues)
        self._lengths: dict[str, int] = {}
        self._well_at_s: dict[str, float] = {}

    def states(self) -> dict[str, QueueState]:
        return {queue: self._state(queue) for queue in self._queues}

    def close(self) -> None:
        self._connection.release()

    def _state(self, queue: str) -> QueueState:
        # The first error closes a channel; here, the queue may not be declared yet.
        with self._connection.channel() as channel:
            try:
                declared = channel.queue_declare(queue, passive=True)
            except self._connection.channel_errors:
                return QueueState(None)
        length, now_s = int(declared.message_count), time.monotonic()
        before = self._lengths.get(queue)
        if length == 0 or before is None or length < before:
            self._well_at_s[queue] = now_s
        self._lengths[queue] = length
        age_s = None if length == 0 or before is None else now_s - self._well_at_s[queue]
        return QueueState(length, age_s, int(declared.consumer_count) if self._counts_workers else None)
