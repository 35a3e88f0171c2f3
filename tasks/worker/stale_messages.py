"""Messages of ended requests, which a starting worker removes from its queue before it takes its first message.

Otherwise each of them costs a round trip to the ledger, and after an hour without workers these trips would make every
new request late.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from chorale_client.keys import OVERLOAD, entry_key
from redis import Redis
from structlog import get_logger

from ledger import ledger_scripts
from monitoring.queues import read_message

log = get_logger("chorale.backlog")

AT_ONCE = 1_000
"""Messages read in one trip: about a megabyte."""
MOST_KEPT = 1_000
"""When it finds this many messages of requests that still wait, the worker stops looking and begins to work."""
MOST_LOST = 20
"""After this many changes of the queue's end in a row, the worker leaves the queue to the workers that serve it."""
LIMIT_S = 30.0
"""Longest delay of a start; a million messages take about twenty seconds."""
WELL_FOR_S, SEEN_WITHIN_S = 0.3, 2.0
"""The sweeper must see the queue without overload for WELL_FOR_S; it looks every quarter of a second."""


def drop_ended(redis: Redis, queue: str) -> int:
    """Remove messages of ended requests from the old end of the queue's list; returns how many.

    `redis` is the server of both ledger and broker.  Messages that belong to no accepted request stay, and so does
    everything after MOST_KEPT messages of waiting requests.  Raises RedisError.
    """
    scripts = ledger_scripts(redis)
    until_s = time.monotonic() + LIMIT_S
    dropped, kept, lost = 0, 0, 0
    while time.monotonic() < until_s and kept < MOST_KEPT and lost < MOST_LOST:
        # The oldest message is the last one; `kept` messages before it were seen already.
        seen: list[bytes] = redis.lrange(queue, -(kept + AT_ONCE), -1)  # type: ignore[assignment]
        fresh = seen[: len(seen) - kept]
        if not fresh:
            break
        alive = _still_waited_for(redis, fresh)
        ended = len(fresh) - len(alive)
        if ended:
            keep = [*alive, *seen[len(fresh) :]]
            if not scripts.run("drop", keys=[queue], args=[seen[-1], seen[0], len(seen), *keep]):
                # Another worker has taken a message meanwhile: look again.
                kept, lost = 0, lost + 1
                continue
            dropped, lost = dropped + ended, 0
        kept += len(alive)
    if dropped:
        _wait_until_seen(redis, queue)
        log.warning("backlog dropped", queue=queue, messages=dropped, kept=kept)
    return dropped


def _wait_until_seen(redis: Redis, queue: str) -> None:
    """Wait until the sweeper has seen that the queue is not overloaded: the removal looked to it like a busy queue."""
    until_s, well_since_s = time.monotonic() + SEEN_WITHIN_S, time.monotonic()
    while (now_s := time.monotonic()) < until_s and now_s - well_since_s < WELL_FOR_S:
        if redis.hexists(OVERLOAD, f"over:{queue}"):
            well_since_s = now_s
        time.sleep(0.05)


def _still_waited_for(redis: Redis, messages: Sequence[bytes]) -> list[bytes]:
    requests = [(read.request_id if (read := read_message(raw)) else "") for raw in messages]
    trip = redis.pipeline(transaction=False)
    for request_id in requests:
        trip.exists(entry_key(request_id))
    return [
        raw
        for raw, request_id, is_in_flight in zip(messages, requests, trip.execute(), strict=True)
        if is_in_flight or not request_id
    ]
