"""What waits on each queue, for `chorale status` and the doctor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from chorale_client.publisher import BROKER_ERRORS
from redis import Redis

from monitoring.heartbeats import Heartbeat
from monitoring.queues import QueueState, queue_states


def read_queues(
    redis: Redis, queues: Sequence[str], *, broker_url: str | None = None, workers: Sequence[Heartbeat] = ()
) -> dict[str, QueueState]:
    """The state of each queue; `broker_url` is Celery's broker where that is another server than `redis`.

    Where the broker counts no consumers, the `workers` that serve a queue are counted.  A broker that does not answer,
    or refuses the login, leaves the lengths unknown.  Raises RedisError.
    """
    try:
        states = queue_states(redis, queues, broker_url=broker_url)
    except BROKER_ERRORS:
        if broker_url is None:
            raise
        states = dict.fromkeys(queues, QueueState(None))
    if not workers:
        return states
    serving = Counter(queue for worker in workers for queue in worker.queues)
    return {
        queue: state if state.workers is not None else replace(state, workers=serving[queue])
        for queue, state in states.items()
    }
