"""A costly request runs on the workers of bulk jobs: it keeps no other request waiting, and counts for no breaker."""

from __future__ import annotations

import time
from typing import Any

import pytest
from chorale_client.keys import BREAKER, DURATIONS
from chorale_client.keys import SERVED as IS_SERVED
from chorale_client.wire_names import QUEUE_BULK, Status

from models.declarations.extensions import BranchKind
from models.hits import Ranking
from tasks.branches.branch_task import BranchTask
from tasks.request import search
from tasks.request.search import search_relaxed
from tests.support.pipelines.bulk import BULK, SERVED
from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

HOLD, BEGUN = "test:hold", "test:begun"
PAUSED_EMBEDDING = f"""
import os, time
from itertools import count
from redis import Redis
from inference.backends import TwoPrecisions

numbers = count(1)

def embed_when_let(self, texts, **options):
    number, give_up = next(numbers), time.monotonic() + 90
    with Redis.from_url(os.environ["CHORALE_REDIS_URL"]) as redis:
        redis.set({BEGUN!r}, number)
        while number == 1 and redis.exists({HOLD!r}) and time.monotonic() < give_up:
            time.sleep(0.02)
    return self.passages.embed_passages(texts, **options)

TwoPrecisions.embed_passages = embed_when_let
"""
"""Code for `preload`: the documents of the first question are embedded when the test lets them."""

DOCUMENT = "The landlord pays for repairs, unless the renter broke the thing on purpose."
COSTLY = [
    {"text": f"who pays for repair number {number}?", "hypothetical_documents": [DOCUMENT] * 8}
    for number in range(64)
]


@pytest.mark.slow
def test_64_questions_with_8_documents_each_degrade_no_other_request_and_open_no_breaker() -> None:
    with (
        RedisServer() as server,
        RunningPipeline(server, queues=[], sweeper=True, preload=PAUSED_EMBEDDING) as served,
    ):
        served.index()
        served.redis.set(HOLD, 1)
        served.start("all", queue=SERVED)
        served.start(BULK)
        served.wait_ready()
        redis, client = served.redis, served.client()
        costly = client.submit(COSTLY, timeout_s=60)
        until(lambda: redis.exists(BEGUN), 20)
        others = [client.retrieve(f"deposit {number}", timeout_s=30) for number in range(25)]
        assert {answer.status for answer in others} == {Status.COMPLETE}
        redis.delete(HOLD)
        answer = costly.answer(60)
        assert (answer.status, len(answer.questions)) == (Status.COMPLETE, 64)
        assert list(redis.scan_iter(BREAKER + "*")) == []
        # Hedges and leases follow the usual times of a branch.
        assert {redis.llen(DURATIONS + branch) for branch in ("bm25", "vector", "hyde")} == {25}


def test_once_its_time_is_over_a_branch_searches_no_more_questions_of_a_costly_request(
    here: OneProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[int] = []

    def counted(kind: BranchKind, task: BranchTask) -> list[Ranking]:
        rankings = search_relaxed(kind, task)
        searched.append(len(task.questions))
        return rankings

    def begun(*args: Any, **named: Any) -> BranchTask:
        """A branch whose clock goes 20 s forward with each of its searches."""
        task, before = BranchTask(*args, **named), len(searched)
        task.clock = lambda: time.monotonic() + 20 * (len(searched) - before)
        return task

    monkeypatch.setattr(search, "search_relaxed", counted)
    monkeypatch.setattr(search, "BranchTask", begun)
    here.redis.set(IS_SERVED + QUEUE_BULK, 1)
    answer = here.ask(["who pays?"] * 64, depth=312, timeout_s=30, cache="bypass")
    here.redis.delete(IS_SERVED + QUEUE_BULK)
    assert searched == [4, 4] * 3, "each of three branches"
    assert {(each.where, each.reason, each.detail) for each in answer.degraded} == {
        (f"search.{branch}", "budget", "no time for 56 of 64 questions")
        for branch in ("bm25", "vector", "hyde")
    }
