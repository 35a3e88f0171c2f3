"""Measures requests beside the costliest ones: 64 questions with 8 documents each, one after another."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from chorale_client import Chorale
from chorale_client.limits import MAX_QUESTIONS, MAX_REWRITES

from bench.timing import alone_and_beside, complete

OTHERS = 25
"""Requests in flight beside a costly one."""
TIMEOUT_S = 60.0
DOCUMENT_CHARACTERS = 400
"""Length of a hypothetical document; 512 documents of this length fit into one request."""


def costly(texts: Sequence[str]) -> list[dict[str, Any]]:
    """The questions of one request, with documents that no worker has embedded yet."""
    numbered = [f"{texts[number % len(texts)]} {number}" for number in range(MAX_QUESTIONS)]
    return [
        {
            "text": text,
            "hypothetical_documents": [
                (f"{number} {text} " * DOCUMENT_CHARACTERS)[:DOCUMENT_CHARACTERS]
                for number in range(MAX_REWRITES)
            ],
        }
        for text in numbered
    ]


@contextmanager
def attacking(client: Chorale, namespace: str, texts: Sequence[str], ended: list[str]) -> Iterator[None]:
    """Sends one costly request after another while the block runs, at least one; notes the statuses with which they end."""
    done = threading.Event()

    def attack() -> None:
        while True:
            answer = client.retrieve(costly(texts), namespace=namespace, cache="bypass", timeout_s=TIMEOUT_S)
            ended.append(answer.status)
            if done.is_set():
                return

    thread = threading.Thread(target=attack)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def compare(
    client: Chorale, namespace: str, texts: Sequence[str], *, progress: Callable[[str], object]
) -> dict[str, Any]:
    """The times of single requests, OTHERS in flight, alone and beside costly ones, in turns."""
    ended: list[str] = []

    def ask(text: str) -> None:
        complete(text, client.retrieve(text, namespace=namespace, cache="bypass", timeout_s=TIMEOUT_S))

    times = alone_and_beside(
        ask,
        texts,
        lambda: attacking(client, namespace, texts[:8], ended),
        {"p95": 0.95, "worst": 1.0},
        in_flight=OTHERS,
        progress=progress,
    )
    return {**times, "costly": dict(Counter(ended))}
