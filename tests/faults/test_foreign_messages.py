"""Messages of a foreign kind on each queue are refused with lines of the log, and the worker does the next task."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from chorale_client.wire_names import QUEUE_BULK, QUEUE_INDEX

from tests.faults.test_bad_messages import MESSAGES, message
from tests.support.faults.serving import QUEUES, nobody_has_ended, serving
from tests.support.faults.waiting import is_whole
from tests.support.pipelines.pipeline import RunningPipeline, logging_to
from tests.support.waiting import until

pytestmark = pytest.mark.slow

ALL = (*QUEUES, QUEUE_INDEX, QUEUE_BULK)
RANDOM = {
    "random bytes": bytes(range(256)),
    "an unknown task": message(b"[[], {}, {}]", {"task": "nobody.knows.it"}),
    "headers of other types": message(
        b"[[], {}, {}]", {"task": 5, "id": [], "retries": "many", "group": {"a": 1}}
    ),
    "another compression": message(b"[[], {}, {}]", {"compression": "application/x-bz2"}),
    "another character set": message(b"[[], {}, {}]", **{"content-encoding": "klingon"}),
}

LATE_PARTS = {
    "a body of 10 MB",
    "wrong arguments",
    "a moment in a thousand years",
    "an end that is none",
    "a time limit that is none",
    "callbacks that are none",
}
"""Messages that look like parts of a request that has ended.  The log needs no line for them."""


@pytest.fixture(scope="module")
def log_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log_file") / "log"


@pytest.fixture(scope="module")
def pipeline(log_file: Path) -> Iterator[RunningPipeline]:
    with serving(ALL, preload=logging_to(log_file)) as running:
        yield running


@pytest.mark.parametrize("queue", ALL)
def test_foreign_messages_are_logged_and_the_next_tasks_are_done(
    pipeline: RunningPipeline, log_file: Path, queue: str
) -> None:
    messages, before = {**MESSAGES, **RANDOM}, len(log_file.read_text().splitlines())
    for sent in messages.values():
        pipeline.redis.lpush(queue, sent)
    until(lambda: not pipeline.redis.llen(queue))
    refused = messages.keys() - LATE_PARTS
    until(lambda: len(log_file.read_text().splitlines()) >= before + len(refused))
    nobody_has_ended(pipeline)
    until(lambda: is_whole(pipeline))
    client = pipeline.client()
    ticket = client.upsert("foreign", [{"id": queue, "text": "Bread is baked."}])
    assert client.wait_visible(ticket, wait_s=60).added == 1
    job = client.jobs.submit(["who bakes bread?"], namespace="foreign")
    assert job.wait(60).outcome == "completed"
