"""What an index worker has taken from a queue in Redis stays with it, and is there for another one when it dies."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipeline import RunningPipeline
from tests.redis_server import RedisServer
from tests.waiting import until

QUEUE = "chorale.index"
BACK_AFTER_S = 2
LONG_S = 7
TEA = {"id": "tea", "title": "Tea", "text": "Green tea is brewed at eighty degrees."}

SLOW = f"""
import os, time
import config.celery, tasks.corpus

config.celery.VISIBILITY_TIMEOUT_S = {BACK_AFTER_S}
index_corpus = tasks.corpus.index_corpus

def first_slowly(resources, *args, **options):
    with open(resources.settings.home / "begun", "a") as begun:
        is_first = begun.tell() == 0
        begun.write(os.environ["CHORALE_TEST_PROCESS"] + "\\n")
    if is_first:
        time.sleep({LONG_S})
    return index_corpus(resources, *args, **options)

tasks.corpus.index_corpus = first_slowly
"""


@pytest.fixture
def two_workers() -> Iterator[RunningPipeline]:
    with RedisServer() as server, RunningPipeline(server, queues=[QUEUE], preload=SLOW) as running:
        running.start("another", queue=QUEUE)
        running.wait_ready()
        yield running


def begun(pipeline: RunningPipeline) -> list[str]:
    file = Path(pipeline.home / "begun")
    return file.read_text().split() if file.exists() else []


def test_a_long_message_is_done_by_one_worker_though_others_are_idle(two_workers: RunningPipeline) -> None:
    client = two_workers.client()
    assert client.wait_visible(client.upsert("docs", [TEA]), wait_s=LONG_S + 20).added == 1
    assert len(begun(two_workers)) == 1
    assert two_workers.redis.hlen("unacked") == two_workers.redis.llen(QUEUE) == 0


def test_what_a_killed_worker_had_in_hand_is_done_by_another(two_workers: RunningPipeline) -> None:
    client = two_workers.client()
    ticket = client.upsert("docs", [TEA])
    (first,) = until(lambda: begun(two_workers))
    two_workers.kill(first)
    # The other looks every 5 s for what came back.
    until(lambda: len(begun(two_workers)) == 2, BACK_AFTER_S + 5 + 5)
    assert client.wait_visible(ticket, wait_s=LONG_S + 20).added == 1


def test_no_message_is_lost_while_the_memory_of_redis_is_full() -> None:
    with RedisServer() as server, RunningPipeline(server, queues=[QUEUE]) as running:
        client = running.client()
        running.processes[QUEUE].send_signal(signal.SIGSTOP)
        text = "The rent is due on the third working day. " * 500
        for number in range(3):
            client.upsert("docs", [TEA | {"id": f"tea-{number}", "text": text}])
        running.redis.config_set("maxmemory", running.redis.info("memory")["used_memory"] // 2)
        running.processes[QUEUE].send_signal(signal.SIGCONT)

        until(lambda: running.redis.llen(QUEUE) == running.redis.hlen("unacked") == 0)
        assert set(running.resources.writing_store.revisions("docs", "task")) == {"tea-0", "tea-1", "tea-2"}
        assert running.processes[QUEUE].poll() is None
