"""`chorale bench crowding`: the requests that it sends, and its figures."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

from chorale_client.checked_request import make_request

from bench.crowding import compare, costly


def test_a_costly_request_is_as_large_as_the_limits_allow() -> None:
    request = make_request(costly(["what does `os.fork` do?"]))
    documents = [text for question in request.questions for text in question.hypothetical_documents]
    assert (len(request.questions), len(documents), len(set(documents))) == (64, 512, 512)


def test_requests_are_timed_alone_and_beside_costly_ones() -> None:
    attacked = threading.Event()

    def retrieve(questions: Any, **_: Any) -> Any:
        if isinstance(questions, list):
            attacked.set()
        time.sleep(0.001)
        return SimpleNamespace(status="degraded" if questions == "question 5" else "complete", degraded=())

    client: Any = SimpleNamespace(retrieve=retrieve)
    times = compare(client, "docs", [f"question {number}" for number in range(60)], progress=lambda _: None)
    assert attacked.is_set()
    assert (times["hung"], set(times["costly"])) == (1, {"complete"})
    assert times["alone_p95_ms"] > 0 < times["beside_p95_ms"]
