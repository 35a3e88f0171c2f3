"""One process that asks: `main([system, redis_url, seed, first, last, step, log_file])`.

It logs each event before the next step, so that the log of a killed asker shows the requests that it began.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from chorale_client import Chorale, ServiceUnavailable, make_request

from tests.soak import plain_chord
from tests.soak.questions import options
from tests.support.pipelines import failpoints

THREADS = 4
PATIENCE_S = 30
"""For this time a caller repeats its request with the same id while Redis is away."""

Answered = Mapping[str, Any]
Ask = Callable[[Mapping[str, Any]], Answered]


def asking_chorale(redis_url: str) -> Ask:
    client = Chorale(redis_url)

    def ask(fields: Mapping[str, Any]) -> Answered:
        request = make_request(**fields)
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                answer = client.ask(request)
            except ServiceUnavailable:
                if time.monotonic() > until:
                    return {"status": "unavailable"}
                time.sleep(0.1)
            else:
                time.sleep(answer.retry_after_s or 0)  # a refused caller waits for as long as the answer says
                hits = [[hit.document_id for hit in question.hits] for question in answer.questions]
                return {"status": answer.status, "hits": hits}

    return ask


SYSTEMS: Mapping[str, Callable[[str], Ask]] = {
    "chorale": asking_chorale,
    "plain_chord": plain_chord.asking,
}


def run(system: str, redis_url: str, seed: int, numbers: Iterator[int], log_file: str) -> None:
    log = os.open(log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    turn = threading.Lock()

    def say(event: str, number: int, **more: Any) -> None:
        os.write(log, json.dumps({"event": event, "number": number, **more}).encode() + b"\n")

    ask = SYSTEMS[system](redis_url)

    def work() -> None:
        while True:
            with turn:
                number = next(numbers, None)
            if number is None:
                return
            fields = options(seed, number)
            say("begun", number)
            began_s = time.monotonic()
            answered = ask(fields)
            say("answered", number, waited_s=round(time.monotonic() - began_s, 3), **answered)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main(arguments: Sequence[Any]) -> None:
    system, redis_url, seed, first, last, step, log_file = arguments
    os.environ["CHORALE_REDIS_URL"] = redis_url
    failpoints.install(plain_chord.PLACES if system == "plain_chord" else failpoints.PLACES)
    run(system, redis_url, seed, iter(range(first, last, step)), log_file)
