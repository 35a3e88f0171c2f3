"""Workers that serve several branches: one of them takes all parts of a request, and embeds its question once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from chorale_client.keys import READY
from chorale_client.wire_names import QUEUE_FUSION
from pydantic_core import to_json

from tasks.celery_internals.batch_consumer import BatchConsumer
from tasks.request.batch import make_intake
from tests.support.faults.serving import serving
from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.waiting import until

BRANCHES = ["chorale.bm25", "chorale.vector", "chorale.hyde"]
SERVED = [*BRANCHES, QUEUE_FUSION]
REPLICAS = ("replica.1", "replica.2")
NOTED = "test:workers"

NOTES_WORKERS = f"""
import os
from celery import signals
from redis import Redis

client = Redis.from_url(os.environ["CHORALE_REDIS_URL"])
signals.task_prerun.connect(lambda task_id, **_: client.hset("{NOTED}", task_id, os.getpid()), weak=False)
"""


@contextmanager
def two_replicas() -> Iterator[RunningPipeline]:
    with serving(["chorale.retrieve"], preload=NOTES_WORKERS) as running:
        for replica in REPLICAS:
            running.start(replica, queue=",".join(SERVED))
        running.wait_ready()
        yield running


@pytest.mark.slow
def test_one_of_two_idle_replicas_takes_all_parts_of_a_request() -> None:
    with two_replicas() as running:
        for number in range(20):
            assert running.client().retrieve(f"bread {number}", cache="bypass").status == "complete"
        workers: dict[str, set[str]] = defaultdict(set)
        noted: Any = running.redis.hgetall(NOTED)
        for task_id, pid in noted.items():
            request_id, _, branch = task_id.decode().partition(":")
            if branch:
                workers[request_id].add(pid)
        assert [len(pids) for pids in workers.values()] == [1] * 20

        for replica in REPLICAS:
            running.kill(replica)
        handle = running.client().submit("repairs", cache="bypass", timeout_s=30)
        until(lambda: running.redis.delete(READY) == 1)
        running.start(REPLICAS[0], queue=",".join(SERVED))
        assert handle.answer().status == "complete", "a part without a token waits a second at most"


@pytest.fixture
def intake(here: OneProcess) -> Iterator[BatchConsumer]:
    here.redis.delete(*SERVED, READY)
    yield make_intake(here.app, SERVED)
    here.redis.delete(*SERVED, READY)


def refused(*_: object) -> None:
    pytest.fail("the message goes Celery's way")


def test_a_token_stands_for_each_chord_and_goes_with_the_last_part(
    here: OneProcess, intake: BatchConsumer
) -> None:
    ids = [here.submit(f"bread {number}", cache="bypass") for number in range(3)]
    assert here.redis.llen(READY) == 3
    here.redis.rpop(READY)
    intake.take_waiting(refused)
    assert [here.answer(request_id).status for request_id in ids] == ["complete"] * 3
    assert here.redis.exists(READY, *SERVED) == 0


def test_parts_that_one_worker_leaves_wake_the_next(here: OneProcess, intake: BatchConsumer) -> None:
    ids = [here.submit(f"repairs {number}", cache="bypass") for number in range(10)]
    here.redis.delete(READY)
    intake.take_waiting(refused)
    assert [here.redis.llen(queue) for queue in (READY, *BRANCHES)] == [1, 2, 2, 2], "eight at once"
    intake.take_waiting(refused)
    assert [here.answer(request_id).status for request_id in ids] == ["complete"] * 10


def test_a_part_that_was_sent_again_comes_alone(here: OneProcess, intake: BatchConsumer) -> None:
    first, second = (here.submit(text, cache="bypass") for text in ("bread", "deposit"))
    here.redis.hset(f"chorale:request:{second}", "resent:bm25", 1)
    taken: list[list[str]] = []
    run = intake.run

    def noted(messages: Any, joined: Any, joined_s: float) -> None:
        taken.append([message.task_id for message in messages])
        run(messages, joined, joined_s)

    object.__setattr__(intake, "run", noted)
    while here.redis.rpop(READY):
        intake.take_waiting(refused)
    assert [f"{second}:bm25"] in taken
    assert [here.answer(request_id).status for request_id in (first, second)] == ["complete"] * 2


def test_a_message_for_celery_goes_its_way_among_others(here: OneProcess, intake: BatchConsumer) -> None:
    stranger = {"headers": {"task": "their.task", "id": "1"}, "body": ""}
    here.redis.lpush(BRANCHES[0], to_json(stranger))
    request_id = here.submit("bread", cache="bypass")
    delivered: list[Any] = []
    while here.redis.rpop(READY):
        intake.take_waiting(lambda payload, queue: delivered.append((payload, queue)))
    assert delivered == [(stranger, BRANCHES[0])]
    assert here.answer(request_id).status == "complete"


@pytest.mark.parametrize(
    ("served", "waits_on"),
    [
        (SERVED, [READY, QUEUE_FUSION]),
        (BRANCHES, [READY]),
        # The tokens are those of workers that serve every branch.
        (BRANCHES[:2], BRANCHES[:2]),
        (BRANCHES[:1], BRANCHES[:1]),
        ([*BRANCHES[:1], QUEUE_FUSION], [*BRANCHES[:1], QUEUE_FUSION]),
    ],
)
def test_a_worker_of_several_branches_waits_for_tokens(
    here: OneProcess, served: list[str], waits_on: list[str]
) -> None:
    assert make_intake(here.app, served).waits_on(served) == waits_on
    intake = make_intake(here.app, served)
    object.__setattr__(intake, "has_tokens", False)
    assert intake.waits_on(served) == served, "a plain chord has no tokens"
