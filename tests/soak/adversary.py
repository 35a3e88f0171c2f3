"""A seeded adversary: it strikes once in so many requests, most often at the step that it has hit least."""

from __future__ import annotations

import random
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import psutil
from redis import Redis
from redis.exceptions import RedisError

from tests.support.pipelines import failpoints
from tests.support.pipelines.fork_server import Process
from tests.support.servers.redis_server import RedisServer

REQUESTS_A_STRIKE = 11
KINDS = {"place": 74, "kill": 8, "hang": 8, "duplicate": 6, "lock": 3, "redis": 1}
"""The kinds of strikes with their weights: a named place, a random process, duplicate messages, the database, Redis."""
LONGEST_HANG_S = 1.5


class Crew(Protocol):
    """The processes under attack."""

    server: RedisServer
    redis: Redis
    database: Path | None

    def running(self) -> dict[str, Process]: ...

    def start(self, name: str) -> None: ...

    def begun(self) -> int:
        """Returns the number of requests asked so far."""
        ...

    def duplicate(self, chance: random.Random) -> None:
        """Deliver a message of a request in flight again."""
        ...


class Adversary:
    """Strikes until stopped; it restarts the processes that it killed and resumes those that it hung."""

    def __init__(self, crew: Crew, seed: int, places: Collection[str]) -> None:
        self._crew = crew
        self._chance = random.Random(seed)
        self._places = sorted(places)
        self._aimed: Counter[str] = Counter()
        self._hung: dict[int, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="adversary")
        self.struck: Counter[str] = Counter()
        """The adversary's own strikes.  `failpoints.fault_counts` counts the faults at places."""
        self._locks: list[threading.Thread] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the strikes; all processes are back when this returns."""
        assert self._thread.is_alive(), "the adversary itself failed"
        self._stop.set()
        self._thread.join()
        for lock in self._locks:
            lock.join()
        with suppress(RedisError):
            self._crew.redis.delete(*[failpoints.ARMED + place for place in self._places])
        for _ in range(40):
            self._mend(anyway=True)
            time.sleep(0.05)

    def _run(self) -> None:
        due = 0.0
        while not self._stop.wait(0.03):
            self._mend()
            while self._crew.begun() >= due and not self._stop.is_set():
                due += self._chance.expovariate(1 / REQUESTS_A_STRIKE)
                kind = self._chance.choices(list(KINDS), list(KINDS.values()))[0]
                with suppress(RedisError):
                    _STRIKES[kind](self)

    def _mend(self, *, anyway: bool = False) -> None:
        """Start the processes that are gone, and resume those that have hung long enough."""
        now_s = time.monotonic()
        for name, process in self._crew.running().items():
            if process.poll() is not None:
                self._hung.pop(process.pid, None)
                self._crew.start(name)
                continue
            with suppress(psutil.NoSuchProcess):
                if psutil.Process(process.pid).status() == psutil.STATUS_STOPPED:
                    until_s = self._hung.setdefault(
                        process.pid, now_s + self._chance.uniform(0.05, LONGEST_HANG_S)
                    )
                    if anyway or now_s >= until_s:
                        del self._hung[process.pid]
                        process.send_signal(signal.SIGCONT)

    def _at_a_place(self) -> None:
        least = min(self._aimed[place] for place in self._places)
        place = self._chance.choice([one for one in self._places if self._aimed[one] == least])
        self._aimed[place] += 1
        fault = self._chance.choices(("kill", "hang"), (3, 1))[0]
        self._crew.redis.rpush(failpoints.ARMED + place, fault)

    def _somebody(self) -> tuple[str, Process]:
        return self._chance.choice(sorted(self._crew.running().items()))

    def _kill(self) -> None:
        self._somebody()[1].kill()
        self.struck["killed anywhere"] += 1

    def _hang(self) -> None:
        self._somebody()[1].send_signal(signal.SIGSTOP)
        self.struck["hung anywhere"] += 1

    def _duplicate(self) -> None:
        self._crew.duplicate(self._chance)
        self.struck["delivered again"] += 1

    def _restart_redis(self) -> None:
        self._crew.server.kill()
        time.sleep(self._chance.uniform(0, 0.3))
        self._crew.server.start()
        self.struck["Redis restarted"] += 1

    def _lock(self) -> None:
        if self._crew.database is None:
            return
        self._locks.append(
            threading.Thread(target=_hold, args=(self._crew.database, self._chance.uniform(0.2, 1.5)))
        )
        self._locks[-1].start()
        self.struck["database locked"] += 1


def _hold(database: Path, hold_s: float) -> None:
    with suppress(sqlite3.OperationalError):
        connection = sqlite3.connect(database, timeout=5, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        time.sleep(hold_s)
        connection.execute("ROLLBACK")
        connection.close()


_STRIKES: dict[str, Callable[[Adversary], None]] = {
    "place": Adversary._at_a_place,
    "kill": Adversary._kill,
    "hang": Adversary._hang,
    "duplicate": Adversary._duplicate,
    "redis": Adversary._restart_redis,
    "lock": Adversary._lock,
}
