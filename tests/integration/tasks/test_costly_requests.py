"""A costly request runs on the workers of bulk jobs: it keeps no other request waiting, and counts for no breaker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from chorale_client.keys import BREAKER, DURATIONS
from chorale_client.keys import SERVED as IS_SERVED
from chorale_client.wire_names import QUEUE_BULK, Status

from tasks.branches.branch_task import BranchTask
from tasks.request import search
from tests.support.pipelines.bulk import BULK, SERVED
from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

HOLD, LAST, BEGUN = "test:hold", "test:last", "test:begun"
HELD = f"""
import os, time
from itertools import count
from redis import Redis

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


@pytest.mark.slow
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


@pytest.mark.slow
def test_without_a_bulk_worker_the_usual_workers_answer_a_costly_request() -> None:
    with RedisServer() as server, RunningPipeline(server, queues=[], sweeper=True) as running:
        running.index()
        running.start("all", queue=SERVED)
        running.wait_ready()
        answer = running.client().retrieve(COSTLY[:8], timeout_s=60)
        assert (answer.status, len(answer.questions)) == (Status.COMPLETE, 8)


def test_once_its_time_is_over_a_branch_searches_no_more_questions_of_a_costly_request(
    here: OneProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded: list[int] = []
    vector = here.resources.encoder.questions.embed_questions(["who pays?"])

    def embed(texts: list[str], **_: object) -> Any:
        embedded.append(len(texts))
        return vector.repeat(len(texts), axis=0)

    monkeypatch.setattr(here.resources.encoder.questions, "embed_questions", embed)
    # The time of a branch is over once it has embedded twice.
    monkeypatch.setattr(
        search, "BranchTask", partial(BranchTask, clock=lambda: time.monotonic() + 20 * len(embedded))
    )
    here.redis.set(IS_SERVED + QUEUE_BULK, 1)
    variants = [{"kind": "semantic", "text": f"{DOCUMENT} {number}"} for number in range(7)]
    questions = [{"text": f"who pays {number}?", "variants": variants} for number in range(32)]
    answer = here.ask(questions, timeout_s=30, cache="bypass")
    here.redis.delete(IS_SERVED + QUEUE_BULK)
    assert embedded == [4 * 8, 4 * 8]
    reasons = {(each.where, each.reason, each.detail) for each in answer.degraded}
    assert ("search.vector", "budget", "no time for 24 of 32 questions") in reasons
