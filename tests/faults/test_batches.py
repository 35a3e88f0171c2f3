"""A worker takes several waiting messages at once: what happens to one of them costs no other."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from chorale_client import Answer, make_request
from chorale_client.keys import DURATIONS, MOMENTS
from chorale_client.words import QUEUE_FUSION

from ledger.breakers import FEWEST_DURATIONS
from tasks.celery_surface.result_backend import part_id
from tasks.request.retrieve import submit
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

BM25 = "chorale.bm25"
SEARCHES, BEGUN = "test:searches", "test:begun"

FAULTY = f"""
import json, os, signal, time
from celery import signals
import branches.kinds.bm25
from redis import Redis

search, client = branches.kinds.bm25.search_bm25, Redis.from_url(os.environ["CHORALE_REDIS_URL"])

def faulty(part):
    client.rpush("{SEARCHES}", json.dumps(part.texts))
    for text in part.texts:
        if "killed" in text:
            os.kill(os.getpid(), signal.SIGKILL)
        if "exits" in text:
            raise SystemExit(3)
        if "sleeps" in text and client.incr("test:slept") == 1:
            client.rpush("{BEGUN}", os.getpid())
            time.sleep(20)
    return search(part)

object.__setattr__(branches.kinds.bm25.KIND, "search", faulty)
signals.task_prerun.connect(lambda task_id, **_: client.rpush("test:prerun", task_id), weak=False)
signals.task_postrun.connect(lambda task_id, state, **_: client.rpush("test:postrun", task_id + " " + state), weak=False)
"""


@pytest.fixture(scope="module")
def pipeline() -> Iterator[RunningPipeline]:
    with (
        RedisServer() as server,
        RunningPipeline(
            server,
            queues=[BM25, QUEUE_FUSION],
            sweeper=True,
            preload=FAULTY,
            environment={"CHORALE_BREAKER_FAILURES": "0", "CHORALE_REMOTE_CONTROL": "true"},
        ) as running,
    ):
        running.index()
        yield running


@pytest.fixture(autouse=True)
def afresh(pipeline: RunningPipeline) -> None:
    pipeline.revive()
    pipeline.redis.delete(SEARCHES, BEGUN, "test:slept", "test:prerun", "test:postrun", DURATIONS + "bm25")


@pytest.fixture
def short_lease(pipeline: RunningPipeline) -> None:
    """The lease of a part is its shortest, because the branch has always answered within a millisecond."""
    pipeline.redis.rpush(DURATIONS + "bm25", *[1] * FEWEST_DURATIONS)
    time.sleep(1.1)  # a process remembers these figures for a second


def send(pipeline: RunningPipeline, texts: Sequence[str], *, timeout_s: float = 20) -> list[str]:
    """Submits a request of bm25 for each text; returns their ids."""
    ids = []
    for text in texts:
        request = make_request(text, branches=["bm25"], cache="bypass", timeout_s=timeout_s)
        ids.append(submit(pipeline.resources, pipeline.app.fanout, request))
    return ids


def sent_to_a_paused_worker(pipeline: RunningPipeline, texts: Sequence[str], **options: Any) -> list[str]:
    pipeline.pause(BM25)
    ids = send(pipeline, texts, **options)
    # One message may already be on its way to the paused worker.
    until(lambda: pipeline.redis.llen(BM25) >= len(texts) - 1)
    pipeline.resume(BM25)
    return ids


def answers(pipeline: RunningPipeline, ids: Sequence[str]) -> list[Answer]:
    client = pipeline.client()
    return [client.answer(request_id, wait_s=30) for request_id in ids]


def told(pipeline: RunningPipeline, key: str) -> set[str]:
    found: Any = pipeline.redis.lrange(key, 0, -1)
    return {one.decode() for one in found}


def searches(pipeline: RunningPipeline) -> list[list[str]]:
    return [json.loads(one) for one in pipeline.redis.lrange(SEARCHES, 0, -1)]


def test_messages_that_wait_are_searched_together(pipeline: RunningPipeline) -> None:
    ids = sent_to_a_paused_worker(pipeline, [f"bread {nth}" for nth in range(9)])
    assert [one.status for one in answers(pipeline, ids)] == ["complete"] * 9
    sizes = [len(texts) for texts in searches(pipeline)]
    assert sum(sizes) == 9
    assert max(sizes) == 8, "eight at once, the usual setting"


def test_a_part_that_exits_fails_alone(pipeline: RunningPipeline) -> None:
    ids = sent_to_a_paused_worker(pipeline, ["bread", "this exits", "repairs"])
    found = answers(pipeline, ids)
    assert [one.status for one in found] == ["complete", "failed", "complete"]
    assert [(one.where, one.reason) for one in found[1].degraded] == [("search.bm25", "error")]
    assert pipeline.processes[BM25].poll() is None


@pytest.mark.usefixtures("short_lease")
def test_a_part_that_kills_its_worker_costs_no_other_part(pipeline: RunningPipeline) -> None:
    stop = threading.Event()

    def supervise() -> None:
        while not stop.wait(0.05):
            if pipeline.processes[BM25].poll() is not None:
                pipeline.start(BM25)

    texts = ["bread", "the killed one", "repairs", "deposit", "notice"]
    supervisor = threading.Thread(target=supervise)
    supervisor.start()
    try:
        ids = sent_to_a_paused_worker(pipeline, texts)
        found = answers(pipeline, ids)
    finally:
        stop.set()
        supervisor.join()
    assert [one.status for one in found] == ["complete", "failed", "complete", "complete", "complete"]
    assert [(one.where, one.reason) for one in found[1].degraded] == [("search.bm25", "timeout")]
    # The first time in company, then alone as often as a part is sent again.
    alone = [one for one in searches(pipeline) if one == ["the killed one"]]
    assert len(alone) == 2
    assert sum("the killed one" in one for one in searches(pipeline)) == 3


def replicas_are_killed(pipeline: RunningPipeline, count: int, *, kills: int) -> list[Answer]:
    """Asks `count` questions of two replicas, of which one, which also fuses, is killed and started again `kills` times."""
    queues = f"{BM25},{QUEUE_FUSION}"
    pipeline.start("replica", queue=queues)
    pipeline.wait_ready(["replica"])
    ids: list[str] = []
    try:
        for nth in range(kills):
            ids += send(pipeline, [f"bread {nth} {one}" for one in range(count // kills)])
            until(lambda: pipeline.redis.llen(BM25) < count // kills)
            pipeline.kill("replica")
            pipeline.start("replica", queue=queues)
            found = answers(pipeline, ids[-count // kills :])
            assert {one.status for one in found} == {"complete"}
            pipeline.wait_ready(["replica"])
        return answers(pipeline, ids)
    finally:
        pipeline.kill("replica")


@pytest.mark.usefixtures("short_lease")
def test_a_replica_killed_within_a_batch_costs_no_request_its_branch(pipeline: RunningPipeline) -> None:
    found = replicas_are_killed(pipeline, 120, kills=3)
    assert [one.status for one in found] == ["complete"] * 120


@pytest.mark.limit_s(360)
@pytest.mark.usefixtures("short_lease")
def test_of_a_thousand_requests_none_loses_its_branch_to_killed_replicas(pipeline: RunningPipeline) -> None:
    found = replicas_are_killed(pipeline, 1_000, kills=10)
    assert [one.status for one in found] == ["complete"] * 1_000


def test_a_worker_that_is_stopped_within_a_batch_puts_its_messages_back(pipeline: RunningPipeline) -> None:
    ids = sent_to_a_paused_worker(pipeline, ["bread", "it sleeps", "repairs"])
    found: Any = pipeline.redis.blpop([BEGUN], timeout=30)
    os.kill(int(found[1]), signal.SIGQUIT)
    assert pipeline.processes[BM25].wait(60) == 0
    assert pipeline.redis.llen(BM25) >= 2
    pipeline.revive()
    assert [one.status for one in answers(pipeline, ids)] == ["complete"] * 3


def test_a_revoked_part_is_cancelled_and_the_others_are_answered(pipeline: RunningPipeline) -> None:
    requests = [
        make_request(text, branches=["bm25"], cache="bypass", timeout_s=20) for text in ("bread", "repairs")
    ]
    revoked = part_id(requests[0].request_id, "bm25")
    replies = pipeline.app.control.revoke(revoked, reply=True, timeout=5, limit=2)
    assert len(replies) == 2
    pipeline.pause(BM25)
    for request in requests:
        submit(pipeline.resources, pipeline.app.fanout, request)
    pipeline.resume(BM25)
    found = answers(pipeline, [request.request_id for request in requests])
    assert [one.status for one in found] == ["failed", "complete"]
    assert [(one.where, one.reason) for one in found[0].degraded] == [("search.bm25", "cancelled")]


def test_celery_s_signals_tell_of_each_message(pipeline: RunningPipeline) -> None:
    ids = sent_to_a_paused_worker(pipeline, ["bread", "repairs", "deposit"])
    answers(pipeline, ids)
    tasks = {part_id(request_id, "bm25") for request_id in ids} | set(ids)
    # A message that waited too long is sent again under the same id.
    until(lambda: told(pipeline, "test:postrun") >= {f"{task_id} SUCCESS" for task_id in tasks})
    assert told(pipeline, "test:prerun") >= tasks
    assert told(pipeline, "test:postrun") >= {f"{task_id} SUCCESS" for task_id in tasks}


def test_a_busy_worker_sends_the_heartbeats_that_flower_expects(pipeline: RunningPipeline) -> None:
    beats: list[dict[str, Any]] = []
    with pipeline.app.connection() as connection:
        receiver = pipeline.app.events.Receiver(connection, handlers={"worker-heartbeat": beats.append})
        listener = threading.Thread(target=receiver.capture, kwargs={"limit": None})
        listener.start()
        try:
            ids = send(pipeline, ["it sleeps"])
            found: Any = pipeline.redis.blpop([BEGUN], timeout=30)
            until(lambda: sum(one["pid"] == int(found[1]) and one["active"] == 1 for one in beats) >= 2)
        finally:
            receiver.should_stop = True
            listener.join()
    os.kill(int(found[1]), signal.SIGQUIT)
    assert pipeline.processes[BM25].wait(60) == 0
    pipeline.revive()
    assert [one.status for one in answers(pipeline, ids)] == ["complete"]


def test_nothing_is_left_when_all_have_ended(pipeline: RunningPipeline) -> None:
    ids = sent_to_a_paused_worker(pipeline, ["bread"] * 5)
    answers(pipeline, ids)
    until(lambda: pipeline.redis.zcard(MOMENTS) == 0)
    assert pipeline.redis.llen(BM25) == pipeline.redis.llen(QUEUE_FUSION) == 0
