"""`chorale bench crowding`: the requests that it sends, and its figures."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

from chorale_client.checked_request import make_request

from bench.crowding import compare, costly


def test_a_costly_request_is_as_large_as_the_limits_allow() -> None:
    questions = costly(["what does `os.fork` do?"])
    request = make_request(questions)
    documents = [text for one in request.questions for text in one.hypothetical_documents]
    assert (len(request.questions), len(documents), len(set(documents))) == (64, 512, 512)


def test_requests_are_timed_alone_and_beside_costly_ones() -> None:
    attacked = threading.Event()

    def retrieve(asked: Any, **_: Any) -> Any:
        if isinstance(asked, list):
            attacked.set()
        time.sleep(0.001)
        is_whole = asked != "question 5"
        return SimpleNamespace(status="complete" if is_whole else "degraded", degraded=())

    client: Any = SimpleNamespace(retrieve=retrieve)
    found = compare(client, "docs", [f"question {number}" for number in range(60)], progress=lambda _: None)
    assert attacked.is_set()
    assert (found["hung"], set(found["costly"])) == (1, {"complete"})
    assert found["alone_p95_ms"] > 0 < found["beside_p95_ms"]
