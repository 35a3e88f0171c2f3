"""A caller on a host of its own: `python -m tests.machines.asking PER_SECOND TIMEOUT_S MOST` asks until its input ends.

Each line that it prints is what one request brought.  Its address is CHORALE_REDIS_URL.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import IO

from chorale_client import Chorale
from chorale_client.errors import ChoraleError
from chorale_client.ledger import GRACE_S

NAMESPACE = "docs"
LATE_S = 0.3
STEPS = 10
"""A caller that ends waits for its turn to run at most this often: for locks, sockets, and the other callers of its process."""


@dataclass(frozen=True, slots=True)
class Asked:
    outcome: str
    """The status of the answer, or the name of the error."""
    detail: str
    """What is missing, or what the error says."""
    late_s: float
    """The seconds from the deadline to the answer, less the time for which a busy machine kept the caller from running."""


class Lag:
    """The longest time for which this process was kept from running since a moment: a machine of two cores has other work too."""

    def __init__(self) -> None:
        self._lags: list[tuple[float, float]] = []
        threading.Thread(target=self._measure, daemon=True).start()

    def _measure(self) -> None:
        while True:
            begun_s = time.monotonic()
            time.sleep(0.02)
            self._lags.append((begun_s, time.monotonic() - begun_s - 0.02))

    def since(self, moment_s: float) -> float:
        return max(
            (lag for begun_s, lag in reversed(self._lags[-5000:]) if begun_s >= moment_s - 1), default=0.0
        )


def ask(client: Chorale, number: int, timeout_s: float, lag: Lag) -> Asked:
    begun_s = time.monotonic()
    try:
        answer = client.retrieve(f"Who pays for repair {number}?", namespace=NAMESPACE, timeout_s=timeout_s)
        outcome, detail = (
            str(answer.status),
            " ".join(f"{one.where}: {one.reason}" for one in answer.degraded),
        )
    except ChoraleError as error:
        outcome, detail = type(error).__name__, str(error)
    took_s = time.monotonic() - begun_s
    return Asked(outcome, detail, took_s - timeout_s - GRACE_S - STEPS * lag.since(begun_s))


def main(per_second: float, timeout_s: float, most: int, stop: IO[str]) -> None:
    client, lag = Chorale(), Lag()
    stopping = threading.Event()
    lock = threading.Lock()

    def listen() -> None:
        stop.read()
        stopping.set()

    threading.Thread(target=listen, daemon=True).start()

    def one(number: int) -> None:
        line = json.dumps(asdict(ask(client, number, timeout_s, lag)))
        with lock:
            print(line, flush=True)

    with ThreadPoolExecutor(max(8, int(per_second * (timeout_s + 1)))) as callers:
        begun_s = time.monotonic()
        for number in range(most):
            if stopping.wait(max(0.0, begun_s + number / per_second - time.monotonic())):
                break
            callers.submit(one, number)


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.stdin)
