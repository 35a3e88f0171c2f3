"""A costly request runs on the workers of bulk jobs: it keeps no other request waiting, and counts for no breaker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from chorale_client.keys import BREAKER, DURATIONS
from chorale_client.wire_names import Status

from tests.support.pipelines.bulk import BULK, SERVED
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

pytestmark = pytest.mark.slow

HOLD, LAST, BEGUN = "test:hold", "test:last", "test:begun"
HELD = f"""
import os, time
from itertools import count
from redis import Redis
from inference.backends import TwoPrecisions

numbers = count(1)

def embed_when_let(self, texts, **options):
    number, give_up = next(numbers), time.monotonic() + 90
    hold = {{1: {HOLD!r}, 16: {LAST!r}}}.get(number)
    with Redis.from_url(os.environ["CHORALE_REDIS_URL"]) as redis:
        redis.set({BEGUN!r}, number)
        while hold and redis.exists(hold) and time.monotonic() < give_up:
            time.sleep(0.02)
    return self.passages.embed_passages(texts, **options)

TwoPrecisions.embed_passages = embed_when_let
"""
"""Code for `preload`: the documents of the first and of the sixteenth question are embedded when the test lets them."""

DOCUMENT = "The landlord pays for repairs, unless the renter broke the thing on purpose."
COSTLY = [
    {"text": f"who pays for repair number {number}?", "hypothetical_documents": [DOCUMENT] * 8}
    for number in range(64)
]


@contextmanager
def held() -> Iterator[RunningPipeline]:
    with RedisServer() as server, RunningPipeline(server, queues=[], sweeper=True, preload=HELD) as running:
        running.index()
        running.redis.mset({HOLD: 1, LAST: 1})
        yield running


def test_64_questions_with_8_documents_each_degrade_no_other_request_and_open_no_breaker() -> None:
    with held() as served:
        served.start("all", queue=SERVED)
        served.start(BULK)
        served.wait_ready()
        redis, client = served.redis, served.client()
        costly = client.submit(COSTLY, timeout_s=60)
        until(lambda: redis.exists(BEGUN), 20)
        others = [client.retrieve(f"deposit {number}", timeout_s=30) for number in range(25)]
        assert {answer.status for answer in others} == {Status.COMPLETE}
        redis.delete(HOLD, LAST)
        answer = costly.answer(60)
        assert (answer.status, len(answer.questions)) == (Status.COMPLETE, 64)
        assert list(redis.scan_iter(BREAKER + "*")) == []
        # Hedges and leases follow the usual times of a branch.
        assert {redis.llen(DURATIONS + branch) for branch in ("bm25", "vector", "hyde")} == {25}


def test_without_a_bulk_worker_the_usual_workers_answer_a_costly_request() -> None:
    with RedisServer() as server, RunningPipeline(server, queues=[], sweeper=True) as running:
        running.index()
        running.start("all", queue=SERVED)
        running.wait_ready()
        answer = running.client().retrieve(COSTLY[:8], timeout_s=60)
        assert (answer.status, len(answer.questions)) == (Status.COMPLETE, 8)
