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
from chorale_client.keys import DURATIONS, WAKEUPS
from chorale_client.wire_names import QUEUE_FUSION

from ledger.breakers import FEWEST_DURATIONS
from tasks.celery_internals.result_backend import part_id
from tasks.request.retrieve import submit
from tests.support.faults.moments import join_without_one_branch
from tests.support.faults.serving import serving
from tests.support.pipelines.bulk import reviving
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.waiting import until

BM25 = "chorale.bm25"
SEARCHES, BEGUN = "test:searches", "test:begun"

FAULTY = f"""
import json, os, signal, time
from celery import signals
import tasks.branches.searches
from redis import Redis

search, client = tasks.branches.searches.search_bm25, Redis.from_url(os.environ["CHORALE_REDIS_URL"])

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

object.__setattr__(tasks.branches.searches.KINDS["bm25"], "search", faulty)
signals.task_prerun.connect(lambda task_id, **_: client.rpush("test:prerun", task_id), weak=False)
signals.task_postrun.connect(lambda task_id, state, **_: client.rpush("test:postrun", task_id + " " + state), weak=False)
"""


@pytest.fixture(scope="module")
def pipeline() -> Iterator[RunningPipeline]:
    environment = {"CHORALE_REMOTE_CONTROL": "true"}
    with serving([BM25, QUEUE_FUSION], preload=FAULTY, environment=environment) as running:
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


def noted(pipeline: RunningPipeline, key: str) -> set[str]:
    entries: Any = pipeline.redis.lrange(key, 0, -1)
    return {entry.decode() for entry in entries}


def searches(pipeline: RunningPipeline) -> list[list[str]]:
    return [json.loads(texts) for texts in pipeline.redis.lrange(SEARCHES, 0, -1)]


def reasons(answer: Answer) -> list[tuple[str, str]]:
    return [(missing.where, missing.reason) for missing in answer.degraded]


def statuses(pipeline: RunningPipeline, ids: Sequence[str]) -> list[str]:
    return [answer.status for answer in answers(pipeline, ids)]


def test_messages_that_wait_are_searched_together(pipeline: RunningPipeline) -> None:
    ids = sent_to_a_paused_worker(pipeline, [f"bread {nth}" for nth in range(9)])
    assert statuses(pipeline, ids) == ["complete"] * 9
    sizes = [len(texts) for texts in searches(pipeline)]
    assert sum(sizes) == 9
    assert max(sizes) == 8, "eight at once, the usual setting"
    until(lambda: pipeline.redis.zcard(WAKEUPS) == 0)
    # A fusion that was late was called once more.
    until(lambda: pipeline.redis.llen(BM25) == pipeline.redis.llen(QUEUE_FUSION) == 0)


def test_a_part_that_exits_fails_alone(pipeline: RunningPipeline) -> None:
    ids = sent_to_a_paused_worker(pipeline, ["bread", "this exits", "repairs"])
    ended = answers(pipeline, ids)
    assert [answer.status for answer in ended] == ["complete", "failed", "complete"]
    assert reasons(ended[1]) == [("search.bm25", "error")]
    assert pipeline.processes[BM25].poll() is None


@pytest.mark.usefixtures("short_lease")
def test_a_part_that_kills_its_worker_costs_no_other_part(pipeline: RunningPipeline) -> None:
    texts = ["bread", "the killed one", "repairs", "deposit", "notice"]
    with reviving(pipeline):
        ids = sent_to_a_paused_worker(pipeline, texts, timeout_s=60)
        # The first time in company, then alone as often as a part is sent again.
        until(lambda: sum("the killed one" in together for together in searches(pipeline)) == 3, 60)
        join_without_one_branch(pipeline, ids[1])
        ended = answers(pipeline, ids)
    assert [answer.status for answer in ended] == ["complete", "failed", "complete", "complete", "complete"]
    assert reasons(ended[1]) == [("search.bm25", "timeout")]
    assert searches(pipeline).count(["the killed one"]) == 2


def replicas_are_killed(pipeline: RunningPipeline, count: int, *, kills: int) -> list[Answer]:
    """Asks `count` questions of two replicas, of which one, which also fuses, is killed and started again `kills` times."""
    queues = f"{BM25},{QUEUE_FUSION}"
    pipeline.start("replica", queue=queues)
    pipeline.wait_ready(["replica"])
    ids: list[str] = []
    try:
        for nth in range(kills):
            ids += send(pipeline, [f"bread {nth} {number}" for number in range(count // kills)])
            until(lambda: pipeline.redis.llen(BM25) < count // kills)
            pipeline.kill("replica")
            pipeline.start("replica", queue=queues)
            assert set(statuses(pipeline, ids[-count // kills :])) == {"complete"}
            pipeline.wait_ready(["replica"])
        return answers(pipeline, ids)
    finally:
        pipeline.kill("replica")


@pytest.mark.usefixtures("short_lease")
def test_of_many_requests_none_loses_its_branch_to_killed_replicas(pipeline: RunningPipeline) -> None:
    ended = replicas_are_killed(pipeline, 300, kills=5)
    assert [answer.status for answer in ended] == ["complete"] * 300


def sleeping_worker(pipeline: RunningPipeline) -> int:
    """Returns the worker's process once a part sleeps in it."""
    begun: Any = pipeline.redis.blpop([BEGUN], timeout=30)
    return int(begun[1])


def quits(pipeline: RunningPipeline, pid: int) -> None:
    os.kill(pid, signal.SIGQUIT)
    assert pipeline.processes[BM25].wait(60) == 0


def test_a_worker_that_is_stopped_within_a_batch_puts_its_messages_back(pipeline: RunningPipeline) -> None:
    ids = sent_to_a_paused_worker(pipeline, ["bread", "it sleeps", "repairs"])
    quits(pipeline, sleeping_worker(pipeline))
    assert pipeline.redis.llen(BM25) >= 2
    pipeline.revive()
    assert statuses(pipeline, ids) == ["complete"] * 3


def test_a_revoked_part_is_cancelled_and_the_others_are_answered(pipeline: RunningPipeline) -> None:
    requests = [
        make_request(text, branches=["bm25"], cache="bypass", timeout_s=20) for text in ("bread", "repairs")
    ]
    revoked = part_id(requests[0].request_id, "bm25")
    replies = pipeline.app.control.revoke(revoked, reply=True, timeout=20, limit=2)
    assert len(replies) == 2
    pipeline.pause(BM25)
    for request in requests:
        submit(pipeline.resources, pipeline.app.fanout, request)
    pipeline.resume(BM25)
    ended = answers(pipeline, [request.request_id for request in requests])
    assert [answer.status for answer in ended] == ["failed", "complete"]
    assert reasons(ended[0]) == [("search.bm25", "cancelled")]


def test_celery_s_signals_report_each_message(pipeline: RunningPipeline) -> None:
    ids = sent_to_a_paused_worker(pipeline, ["bread", "repairs", "deposit"])
    answers(pipeline, ids)
    tasks = {part_id(request_id, "bm25") for request_id in ids} | set(ids)
    # A message that waited too long is sent again under the same id.
    until(lambda: noted(pipeline, "test:postrun") >= {f"{task_id} SUCCESS" for task_id in tasks})
    assert noted(pipeline, "test:prerun") >= tasks


def test_a_busy_worker_sends_the_heartbeats_that_flower_expects(pipeline: RunningPipeline) -> None:
    beats: list[dict[str, Any]] = []
    with pipeline.app.connection() as connection:
        receiver = pipeline.app.events.Receiver(connection, handlers={"worker-heartbeat": beats.append})
        listener = threading.Thread(target=receiver.capture, kwargs={"limit": None})
        listener.start()
        try:
            ids = send(pipeline, ["it sleeps"], timeout_s=60)
            pid = sleeping_worker(pipeline)
            until(lambda: sum(beat["pid"] == pid and beat["active"] == 1 for beat in beats) >= 2)
        finally:
            receiver.should_stop = True
            listener.join()
    quits(pipeline, pid)
    pipeline.revive()
    assert statuses(pipeline, ids) == ["complete"]
