"""A caller on a host of its own: `python -m tests.machines.asking PER_SECOND MOST IN_FLIGHT TIMEOUT_S...` asks until its input ends.

Each line that it prints is what one request brought.  Its address is CHORALE_REDIS_URL.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path
from typing import IO

from chorale_client import Chorale
from chorale_client.errors import ChoraleError

NAMESPACE = "docs"
LATE_S = 0.3


@dataclass(frozen=True, slots=True)
class EndedRequest:
    outcome: str
    """The status of the answer, or the name of the error."""
    detail: str
    """What is missing, or what the error says."""
    timeout_s: float
    late_s: float
    """The seconds from the deadline to the answer; below 0 if the answer came before."""
    starved_s: float
    """How long threads of the caller's process waited for a processor during the request, all together."""


def late(requests: Sequence[EndedRequest]) -> list[EndedRequest]:
    """The requests that ended later than `LATE_S` after their deadline, and not because the caller got no processor.

    A busy machine makes every process late.  Linux counts how long threads were ready to run and had to wait for a processor, so exactly
    this time is allowed too.  It is nearly zero on a machine with a free core, and a caller that waits for Redis, for the service or for
    a lock adds nothing to it.
    """
    return [one for one in requests if one.late_s > LATE_S + one.starved_s]


def waited_ns() -> dict[str, int]:
    """How long each thread of this process has waited for a processor since it began, by its number."""
    waited = {}
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended
            waited[thread.name] = int((thread / "schedstat").read_text().split()[1])
    return waited


def ask(client: Chorale, number: int, timeout_s: float, namespace: str = NAMESPACE) -> EndedRequest:
    before_ns, begun_s = waited_ns(), time.monotonic()
    try:
        question = f"Who pays for repair {number}?"
        answer = client.retrieve(question, namespace=namespace, timeout_s=timeout_s, cache="bypass")
        outcome, detail = (
            str(answer.status),
            " ".join(f"{one.where}: {one.reason}" for one in answer.degraded),
        )
    except ChoraleError as error:
        outcome, detail = type(error).__name__, str(error)
    late_s = time.monotonic() - begun_s - timeout_s
    starved_ns = sum(ns - before_ns.get(thread, 0) for thread, ns in waited_ns().items())
    return EndedRequest(outcome, detail, timeout_s, late_s, starved_ns / 1e9)


def main(per_second: float, most: int, in_flight: int, limits_s: Sequence[float], stop: IO[str]) -> None:
    client, stopping = Chorale(), threading.Event()
    lock = threading.Lock()

    def listen() -> None:
        stop.read()
        stopping.set()

    threading.Thread(target=listen, daemon=True).start()

    def one(number: int, timeout_s: float) -> None:
        line = json.dumps(asdict(ask(client, number, timeout_s)))
        with lock:
            print(line, flush=True)

    with ThreadPoolExecutor(in_flight) as callers:
        begun_s = time.monotonic()
        for number, timeout_s in zip(range(most), cycle(limits_s), strict=False):
            if stopping.wait(max(0.0, begun_s + number / per_second - time.monotonic())):
                break
            callers.submit(one, number, timeout_s)


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), [*map(float, sys.argv[4:])], sys.stdin)
