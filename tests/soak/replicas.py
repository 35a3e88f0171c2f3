"""A soak of two replicas that are killed again and again while the other lives: `python -m tests.soak.replicas [requests]`."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from chorale_client.errors import ServiceUnavailable
from redis.exceptions import RedisError

from monitoring.heartbeats import read_heartbeats
from tests.support.pipelines.bulk import reviving
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

REPLICAS = ("replica.1", "replica.2")
ANSWERS = "chorale.bm25,chorale.vector,chorale.hyde,chorale.fusion"
IN_FLIGHT = 16
TIMEOUT_S = 5.0
REQUESTS_A_KILL = 54
"""2,000 requests meet 37 kills."""
KILLS = {"replica": 17, "retrieve": 9, "sweeper": 8, "redis": 2}
"""Weights of what is killed."""


@dataclass(slots=True)
class Ends:
    """How the requests of a soak ended."""

    statuses: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    """Why branches were missing, of degraded and failed answers."""
    late: int = 0
    killed: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def failed(self) -> float:
        """The share of requests without an answer."""
        return 1 - (self.statuses["complete"] + self.statuses["degraded"]) / max(1, self.statuses.total())


def soak_replicas(requests: int, seed: int = 1, *, timeout_s: float = TIMEOUT_S) -> Ends:
    """Asks, kills, and restarts what was killed; a replica is killed only while the other one serves."""
    ends, lock = Ends(), threading.Lock()
    with (
        RedisServer(appendonly=True) as server,
        RunningPipeline(server, queues=["chorale.retrieve"], sweeper=True) as running,
    ):
        for replica in REPLICAS:
            running.start(replica, queue=ANSWERS)
        running.wait_ready()
        running.index()
        client = running.client()

        def ask(number: int) -> None:
            answer = None
            while answer is None:
                begun_s = time.monotonic()
                with suppress(ServiceUnavailable):  # Redis is away: the caller asks again
                    answer = client.retrieve(
                        f"who pays for repair {number}?", cache="bypass", timeout_s=timeout_s
                    )
                    # A killed worker has left old messages, and is not back yet.
                    if answer.status == "refused":
                        time.sleep(min(answer.retry_after_s or 0, 0.5))
                        answer = None
            with lock:
                ends.statuses[answer.status] += 1
                ends.late += time.monotonic() - begun_s > timeout_s + 1
                ends.reasons.update(f"{one.where}: {one.reason}" for one in answer.degraded)

        begun_s = time.monotonic()
        with reviving(running), ThreadPoolExecutor(IN_FLIGHT) as pool:
            victims = _victims(seed)
            sent = 0
            while sent < requests:
                some = min(REQUESTS_A_KILL, requests - sent)
                if (victim := next(victims)) == "replica":
                    until(lambda: len(_ready_replicas(running)) == len(REPLICAS), 60)
                doing = [pool.submit(ask, number) for number in range(sent, sent + some)]
                sent += some
                doing[0].result()
                _kill(running, server, victim, ends)
                for one in doing:
                    one.result()
        ends.seconds = time.monotonic() - begun_s
    return ends


def _victims(seed: int) -> Iterator[str]:
    chance = random.Random(seed)
    while True:
        yield chance.choices(list(KILLS), list(KILLS.values()))[0]


def _kill(running: RunningPipeline, server: RedisServer, victim: str, ends: Ends) -> None:
    if victim == "redis":
        server.kill()
        server.start()
    elif victim == "replica":
        ready = _ready_replicas(running)
        if len(ready) < len(REPLICAS):
            return
        running.processes[ready[ends.killed["replica"] % 2]].kill()
    else:
        running.processes[{"retrieve": "chorale.retrieve"}.get(victim, victim)].kill()
    ends.killed[victim] += 1


def _ready_replicas(running: RunningPipeline) -> list[str]:
    with suppress(RedisError):
        names = {beat.name for beat in read_heartbeats(running.redis) if beat.is_ready}
        alive = {name for name, process in running.processes.items() if process.poll() is None}
        return [replica for replica in REPLICAS if replica in names & alive]
    return []


if __name__ == "__main__":
    ends = soak_replicas(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000)
    print(ends, f"{ends.failed:.1%} failed", sep="\n")
