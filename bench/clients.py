"""`python -m bench.clients REDIS_URL`: the ways in which a client may send its requests, side by side.

The Redis is one without workers.  A process that does no work ends each request as soon as it sees the message, so the time is
that of the client and the ledger.  Prints one line of JSON for each way and number in flight.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import time
from base64 import b64decode
from collections.abc import Callable, Sequence
from typing import Any, cast

from chorale_client import AsyncChorale, Chorale
from chorale_client.keys import OUTBOX
from chorale_client.words import QUEUE_RETRIEVE
from redis import Redis

from bench.timing import Timing, cpu_measured, drive
from ledger.protocol import End
from ledger.redis import RedisLedger

IN_FLIGHT = (1, 16, 64)
ROUNDS = 5
TIMEOUT_S = 30.0
TAIL = '"v":1,"status":"complete","questions":[]}'


def by_thread(client: Any) -> Any:
    """The client, with the thread that sends messages one by one through Celery."""
    publisher = client.publisher if isinstance(client, Chorale) else client._blocking.publisher
    publisher._is_ledgers = False
    return client


WAYS: dict[str, Callable[[str], Any]] = {
    "threads, messages by Celery": lambda url: by_thread(Chorale(url)),
    "threads": Chorale,
    "loop, messages by Celery": lambda url: by_thread(AsyncChorale(url)),
    "loop": AsyncChorale,
}


async def _drive_loop(client: AsyncChorale, texts: Sequence[str], in_flight: int, timing: Timing) -> None:
    async def ask(text: str, times_ms: list[float]) -> None:
        begun_s = time.perf_counter()
        await client.retrieve(text, timeout_s=TIMEOUT_S)
        times_ms.append((time.perf_counter() - begun_s) * 1_000)

    waiting = iter(texts)

    async def work() -> None:
        for text in waiting:
            await ask(text, timing.latencies_ms)

    async with client:
        await asyncio.gather(*(ask("warm", []) for _ in range(in_flight)))
        with cpu_measured(timing, {}, lambda: None):
            begun_s = time.perf_counter()
            await asyncio.gather(*(work() for _ in range(in_flight)))
            timing.wall_s += time.perf_counter() - begun_s


def answer_all(redis_url: str) -> None:
    """Ends whatever is sent, until the process is killed."""
    client = Redis.from_url(redis_url)
    ledger = RedisLedger(client)
    while True:
        _, first = cast("tuple[bytes, bytes]", client.brpop([QUEUE_RETRIEVE]))
        messages = [first, *cast("list[bytes]", client.rpop(QUEUE_RETRIEVE, 64) or [])]
        bodies = [json.loads(b64decode(json.loads(one)["body"])) for one in messages]
        ledger.finish_all([End(kwargs["request_id"], TAIL, True) for _, kwargs, _ in bodies], by="bench")
        client.delete(OUTBOX)


def run_way(url: str, way: str, texts: Sequence[str], in_flight: int, timing: Timing) -> None:
    client = WAYS[way](url)
    if isinstance(client, AsyncChorale):
        asyncio.run(_drive_loop(client, texts, in_flight, timing))
        return
    with cpu_measured(timing, {}, client.close):
        drive(
            lambda text: client.retrieve(text, timeout_s=TIMEOUT_S), texts, in_flight=in_flight, timing=timing
        )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("redis_url")
    arguments.add_argument("--requests", type=int, default=400, help="in each round")
    arguments.add_argument("--rounds", type=int, default=ROUNDS)
    given = arguments.parse_args()
    answering = multiprocessing.get_context("spawn").Process(
        target=answer_all, args=[given.redis_url], daemon=True
    )
    answering.start()
    timings = {(way, number): Timing() for number in IN_FLIGHT for way in WAYS}
    ways = list(WAYS)
    for turn in range(given.rounds):
        for way in [*ways[turn % len(ways) :], *ways[: turn % len(ways)]]:
            for in_flight in IN_FLIGHT:
                texts = ["who pays for repairs?"] * given.requests
                run_way(given.redis_url, way, texts, in_flight, timings[way, in_flight])
    for (way, in_flight), timing in timings.items():
        print(json.dumps(timing.to_wire(way, in_flight)))


if __name__ == "__main__":
    main()
