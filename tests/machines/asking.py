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

NAMESPACE = "docs"


@dataclass(frozen=True, slots=True)
class Asked:
    outcome: str
    """The status of the answer, or the name of the error."""
    detail: str
    """What is missing, or what the error says."""
    late_s: float
    """The seconds from the deadline to the answer, which a busy machine makes more; below 0 if the answer came before."""


def ask(client: Chorale, number: int, timeout_s: float) -> Asked:
    begun_s = time.monotonic()
    try:
        answer = client.retrieve(f"Who pays for repair {number}?", namespace=NAMESPACE, timeout_s=timeout_s)
        outcome, detail = (
            str(answer.status),
            " ".join(f"{one.where}: {one.reason}" for one in answer.degraded),
        )
    except ChoraleError as error:
        outcome, detail = type(error).__name__, str(error)
    return Asked(outcome, detail, time.monotonic() - begun_s - timeout_s)


def main(per_second: float, timeout_s: float, most: int, stop: IO[str]) -> None:
    client, stopping = Chorale(), threading.Event()
    lock = threading.Lock()

    def listen() -> None:
        stop.read()
        stopping.set()

    threading.Thread(target=listen, daemon=True).start()

    def one(number: int) -> None:
        line = json.dumps(asdict(ask(client, number, timeout_s)))
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
