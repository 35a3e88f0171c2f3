"""What `chorale index` has sent to the workers of `chorale.index`, and what becomes of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from chorale_client.connections.urls import celery_url
from chorale_client.index_tickets import MESSAGE_TTL_S
from chorale_client.keys import INDEXED, NOT_DONE, SENT, waiting_key
from chorale_client.publisher import BROKER_ERRORS
from chorale_client.wire_names import QUEUE_INDEX
from pydantic_core import from_json

from cli.installation import NotRunning
from config.celery import is_redis
from ledger import ledger_scripts
from monitoring.heartbeats import read_heartbeats
from monitoring.queues import queue_states

if TYPE_CHECKING:
    from cli.installation import Installation


POLL_S = 0.05
COUNT_WORKERS_S = 5.0
GIVE_UP_S = 60.0
"""How long to wait for a worker; a restarted one is ready after a quarter of it."""
LOST_AFTER_S = 180.0
"""While workers are alive, a message counts as lost if neither queue nor worker has had it this long.

The message of a killed worker is in the queue again after a minute."""

Outcome = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class IndexQueue:
    """The queue that this process sends to, at one moment."""

    trouble: NotRunning | None
    """Why no worker takes the messages; None if one does."""
    is_empty: bool
    in_hand: frozenset[str]
    """Messages that workers are busy with."""


def index_queue(installation: Installation) -> IndexQueue:
    """Raises NotRunning, RedisError."""
    redis, broker_url = installation.running_redis(), installation.settings.broker_url
    workers = [worker for worker in read_heartbeats(redis) if QUEUE_INDEX in worker.queues]
    in_hand = frozenset(task for worker in workers for task in worker.tasks)
    counts_consumers = broker_url is not None and not is_redis(celery_url(broker_url))
    trouble, is_empty = None, False
    try:
        state = queue_states(redis, [QUEUE_INDEX], broker_url=broker_url)[QUEUE_INDEX]
        is_empty = not state.length
        # RabbitMQ disconnects a worker that is busy for long; the worker connects again.
        if counts_consumers and not state.workers and not in_hand:
            trouble = NotRunning(
                f"no worker takes anything from {QUEUE_INDEX} at this command's broker",
                "give it the CHORALE_BROKER_URL of the workers, which are alive",
            )
    except BROKER_ERRORS:
        # The broker does not answer; whoever sends the next message gets its error.
        if broker_url is None:
            raise
    if not workers:
        trouble = NotRunning(
            f"no worker of {QUEUE_INDEX} is alive",
            "start one with `chorale worker index`, or let this process do it with --where here",
        )
    return IndexQueue(trouble, is_empty, in_hand)


class SentMessages:
    """The sent messages of one source whose outcome this command has not read yet.

    Redis keeps the list for a day, for the next run.  `say` takes lines for the user who waits.
    """

    def __init__(
        self, installation: Installation, *, namespace: str, source: str, say: Callable[[str], None]
    ) -> None:
        self._installation, self._redis, self._say = installation, installation.running_redis(), say
        self._key, self._not_done = f"{SENT}{namespace}:{source}", NOT_DONE + namespace
        self._bytes: dict[str, int] = {}
        self._printed: set[str] = set()

    def __len__(self) -> int:
        return len(self._bytes)

    @property
    def bytes(self) -> int:
        return sum(self._bytes.values())

    def wait_for_earlier(self) -> None:
        """Wait until every message of an earlier run has ended or is lost; the documents' database has the outcome.

        Raises NotRunning, RedisError.
        """
        tickets = cast("set[bytes]", self._redis.smembers(self._key))
        self._bytes = {ticket.decode(): 0 for ticket in tickets}
        self._ended()
        if self._bytes:
            self._say("waiting for what an earlier run has sent")
        while self._bytes:
            self.wait()

    def add(self, ticket: str, size_bytes: int = 0) -> None:
        """Raises RedisError."""
        ledger_scripts(self._redis).run("add_sent", [self._key], [ticket, MESSAGE_TTL_S])
        self._bytes[ticket] = size_bytes

    def wait(self) -> list[Outcome | None]:
        """Wait until a message has ended; returns the outcome of each ended message, None for a lost one.

        Raises NotRunning where no worker has been alive for a minute, RedisError.
        """
        served_s = counted_s = time.monotonic()
        missing_s = 0.0
        while not (ended := self._ended()):
            time.sleep(POLL_S)
            if (now_s := time.monotonic()) < counted_s + COUNT_WORKERS_S:
                continue
            counted_s = now_s
            self._say_why_they_wait()
            queue = index_queue(self._installation)
            if (trouble := queue.trouble) is None:
                served_s = now_s
            elif now_s > served_s + GIVE_UP_S:
                raise NotRunning(trouble.what, f"{trouble.mend}; what was sent stays in the queue")
            else:
                self._say_once(f"{trouble.what}: waiting for one")
            if trouble is not None or not queue.is_empty or queue.in_hand & self._bytes.keys():
                missing_s = 0.0
            # Counted by polls: while this process was stopped, it saw neither the message nor its outcome.
            elif (missing_s := missing_s + COUNT_WORKERS_S) > LOST_AFTER_S:
                # Later writes need not be recorded for the lost messages any more.
                self._redis.zrem(self._not_done, *self._bytes)
                return self._forget(dict.fromkeys(self._bytes))
        return ended

    def _ended(self) -> list[Outcome | None]:
        """Returns without waiting.  A finished ticket whose outcome has expired yields None."""
        # Redis over `maxmemory` refuses transactions.  In this order a message that ends meanwhile does not look lost.
        with self._redis.pipeline(transaction=False) as trip:
            for ticket in self._bytes:
                trip.zscore(self._not_done, ticket)
                trip.get(INDEXED + ticket)
            replies = trip.execute()
        return self._forget(
            {
                ticket: None if outcome is None else from_json(outcome)
                for ticket, not_done, outcome in zip(self._bytes, replies[::2], replies[1::2], strict=True)
                if outcome is not None or not_done is None
            }
        )

    def _forget(self, ended: Mapping[str, Outcome | None]) -> list[Outcome | None]:
        if ended:
            self._redis.srem(self._key, *ended)
        for ticket in ended:
            del self._bytes[ticket]
        return list(ended.values())

    def _say_why_they_wait(self) -> None:
        for raw in cast(
            "list[bytes | None]", self._redis.mget([waiting_key(ticket) for ticket in self._bytes])
        ):
            if raw is not None:
                self._say_once(f"not indexed yet: {from_json(raw)['waiting']}")

    def _say_once(self, what: str) -> None:
        if what not in self._printed:
            self._printed.add(what)
            self._say(what)
