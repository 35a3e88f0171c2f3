"""Workers are stopped and replaced while requests run: their tasks are finished by them or by the next worker."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from chorale_client import make_request
from chorale_client.keys import UNACKED
from chorale_client.wire_names import QUEUE_INDEX
from redis import Redis

from config.home import find_redis_url
from config.settings import Settings
from tasks.registration import make_app
from tasks.request.retrieve import submit
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tests.support.faults.serving import QUEUES, serving
from tests.support.pipelines.fork_server import ForkedProcess
from tests.support.pipelines.forked_children import start_module
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.stores.one_engine import embedded_store
from tests.support.waiting import until

# A part, a fusion or an index run begins, reports that, and waits until the test releases it.
PAUSABLE = """
import os, time
import redis
import tasks.branches.searches, tasks.indexing.namespace_writer, tasks.request.batch

client = redis.Redis.from_url(os.environ["CHORALE_REDIS_URL"])

def pausable(name, call):
    def paused(*args, **options):
        if client.getdel("test:hold:" + name):
            client.rpush("test:begun", os.getpid())
            while not client.get("test:release"):
                time.sleep(0.01)
        return call(*args, **options)
    return paused

vector = tasks.branches.searches.KINDS["vector"]
object.__setattr__(vector, "search", pausable("chorale.vector", vector.search))
tasks.indexing.namespace_writer.index_corpus = pausable("chorale.index", tasks.indexing.namespace_writer.index_corpus)
tasks.request.batch.end_joined = pausable("chorale.fusion", tasks.request.batch.end_joined)
"""
VECTOR, FUSION = "chorale.vector", "chorale.fusion"


@pytest.fixture(scope="module")
def pipeline() -> Iterator[RunningPipeline]:
    environment = {"CHORALE_SOFT_SHUTDOWN_S": "3"}
    with serving(
        [*QUEUES, QUEUE_INDEX], appendonly=True, preload=PAUSABLE, environment=environment
    ) as running:
        yield running


@pytest.fixture
def hold(pipeline: RunningPipeline) -> Iterator[Callable[[str], None]]:
    """Hold the next message that a worker of this queue begins, until the key `test:release` exists."""

    def next_of(queue: str) -> None:
        pipeline.redis.set(f"test:hold:{queue}", 1)

    yield next_of
    pipeline.redis.delete("test:release", "test:begun")


def begun(pipeline: RunningPipeline) -> int:
    """Wait until a worker has begun the paused message; returns the worker's process."""
    entry: Any = pipeline.redis.blpop(["test:begun"], timeout=30)
    assert entry, "nothing began"
    return int(entry[1])


def ask(pipeline: RunningPipeline) -> str:
    request = make_request("ERR-4711", cache="bypass", timeout_s=30)
    return submit(pipeline.resources, pipeline.app.fanout, request)


def is_complete(pipeline: RunningPipeline, request_id: str) -> None:
    answer = pipeline.client().answer(request_id, wait_s=31)
    assert (answer.status, answer.degraded) == ("complete", ())
    assert answer.hits[0].document_id == "error"
    assert set(answer.hits[0].found_by) == {"bm25", "vector", "hyde"}


def replaced(pipeline: RunningPipeline, name: str) -> None:
    """Wait for the end of the stopping worker, and start the next one."""
    assert pipeline.processes[name].wait(60) == 0
    pipeline.start(name)
    pipeline.wait_ready([name])


def test_the_first_request_after_ready_is_complete(pipeline: RunningPipeline) -> None:
    is_complete(pipeline, ask(pipeline))


def test_a_stopping_worker_finishes_the_part_that_runs(
    pipeline: RunningPipeline, hold: Callable[[str], None]
) -> None:
    hold(VECTOR)
    request_id = ask(pipeline)
    os.kill(begun(pipeline), signal.SIGTERM)
    # The worker's process ends no sooner than the part, however long that takes.
    time.sleep(0.2)
    assert pipeline.processes[VECTOR].poll() is None
    pipeline.redis.set("test:release", 1)
    assert pipeline.processes[VECTOR].wait(60) == 0

    is_complete(pipeline, request_id)
    replaced(pipeline, VECTOR)


@pytest.mark.parametrize(
    "stop",
    [
        pytest.param([signal.SIGTERM], id="its time is over"),
        pytest.param([signal.SIGTERM, signal.SIGTERM], id="SIGTERM twice"),
        pytest.param([signal.SIGQUIT], id="SIGQUIT"),
    ],
)
def test_the_next_worker_does_the_task_that_a_stopping_worker_does_not_finish(
    pipeline: RunningPipeline, hold: Callable[[str], None], stop: list[signal.Signals]
) -> None:
    hold(VECTOR)
    request_id = ask(pipeline)
    pid = begun(pipeline)
    assert pid == pipeline.processes[VECTOR].pid
    for number in stop:
        os.kill(pid, number)
        time.sleep(0.05)
    replaced(pipeline, VECTOR)

    is_complete(pipeline, request_id)


def test_a_fusion_that_is_interrupted_is_done_by_another_worker(
    pipeline: RunningPipeline, hold: Callable[[str], None]
) -> None:
    pipeline.start("fusion-2", queue=FUSION)
    pipeline.wait_ready(["fusion-2"])
    hold(FUSION)
    request_id = ask(pipeline)
    pid = begun(pipeline)
    names = {pipeline.processes[name].pid: name for name in (FUSION, "fusion-2")}
    os.kill(pid, signal.SIGQUIT)

    is_complete(pipeline, request_id)

    assert pipeline.processes.pop(names.pop(pid)).wait(60) == 0
    (other,) = names.values()
    pipeline.processes[FUSION] = pipeline.processes.pop(other)


def test_the_next_worker_indexes_the_documents_of_a_worker_that_got_sigquit(
    pipeline: RunningPipeline, hold: Callable[[str], None]
) -> None:
    """At once: not after the minute that the broker waits for a killed worker."""
    hold(QUEUE_INDEX)
    document = {"id": "tea", "title": "Tea", "text": "Green tea is brewed at eighty degrees."}
    documents = {"namespace": "sent", "documents": [document]}
    pipeline.app.send_task("chorale.index", kwargs=documents, queue=QUEUE_INDEX)
    os.kill(begun(pipeline), signal.SIGQUIT)
    assert pipeline.processes[QUEUE_INDEX].wait(60) == 0
    assert pipeline.redis.llen(QUEUE_INDEX) == 1
    replaced(pipeline, QUEUE_INDEX)
    until(lambda: pipeline.resources.generations.in_redis("sent"))
    answer = pipeline.client().retrieve("green tea", namespace="sent", timeout_s=20)
    assert [hit.document_id for hit in answer.hits] == ["tea"]
    until(lambda: pipeline.redis.llen(QUEUE_INDEX) == pipeline.redis.hlen(UNACKED) == 0)


def test_every_worker_is_replaced_while_requests_run_and_each_request_is_complete(
    pipeline: RunningPipeline,
) -> None:
    """The new workers start beside the old ones, which get a SIGTERM when the new ones are ready."""
    answers, stop = [], threading.Event()

    def ask_all_the_time() -> None:
        client = pipeline.client()
        while not stop.is_set():
            answers.append(client.retrieve("ERR-4711", cache="bypass", timeout_s=20))

    asking = threading.Thread(target=ask_all_the_time)
    asking.start()
    try:
        old = [name for name in pipeline.processes if name != "sweeper"]
        for name in old:
            pipeline.start(f"{name}-new", queue=name)
        pipeline.wait_ready(f"{name}-new" for name in old)
        for name in old:
            pipeline.processes[name].terminate()
        for name in old:
            assert pipeline.processes.pop(name).wait(60) == 0
        count = len(answers)
        until(lambda: len(answers) >= count + 3)
    finally:
        stop.set()
        asking.join()
    assert [answer.status for answer in answers] == ["complete"] * len(answers)
    is_complete(pipeline, ask(pipeline))


@contextmanager
def up(home: Path) -> Iterator[tuple[ForkedProcess, Redis]]:
    """`chorale up` with only an index worker, which interrupts its task at the first signal to stop."""
    few = "retrieve=0,bm25=0,vector=0,hyde=0,fusion=0,bulk=0,index=1"
    environment = {**os.environ, "CHORALE_HOME": str(home), "CHORALE_SOFT_SHUTDOWN_S": "0"}
    with Path(os.devnull).open("w") as out:
        process = start_module(
            "cli", "up", "--processes", few, environment=environment, out=out.fileno(), err=2
        )
    try:
        url = until(lambda: find_redis_url(home))
        with Redis.from_url(url or "") as client:
            yield process, client
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def test_ctrl_c_stops_up_in_the_middle_of_indexing_and_the_next_up_goes_on(tmp_path: Path) -> None:
    documents = [
        {
            "id": f"note-{number}",
            "title": f"Note {number}",
            "text": f"The number {number} is a number. " * 400,
        }
        for number in range(8)
    ]
    store = embedded_store(tmp_path / "corpus")
    with up(tmp_path) as (process, client):
        resources = Resources(Settings(home=tmp_path), load_pipeline(), find_redis_url(tmp_path) or "")
        make_app(resources).send_task(
            "chorale.index", kwargs={"namespace": "notes", "documents": documents}, queue=QUEUE_INDEX
        )
        until(lambda: client.hlen(UNACKED))
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert [state.documents for state in store.namespaces()] in ([], [0]), "there was no middle"
    with up(tmp_path):
        until(lambda: [state.documents for state in store.namespaces()] == [8], 90)
    store.close()
