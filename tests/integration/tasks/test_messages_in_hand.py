"""What an index worker has taken from a queue in Redis stays with it, and is there for another one when it dies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, cast

import kombu.transport.redis
import pytest
import redis
from celery import Celery
from chorale_client.connections.urls import celery_url
from chorale_client.keys import UNACKED
from kombu import Exchange, Producer, Queue

from config.settings import Settings
from tasks.registration import make_app
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tests.support.faults.refusals import read_only
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

QUEUE = "chorale.index"
BACK_AFTER_S = 2
LONG_S = 7
Connect = Callable[[], Any]
TEA = {"id": "tea", "title": "Tea", "text": "Green tea is brewed at eighty degrees."}

SLOW = f"""
import os, time
import config.celery, tasks.indexing.namespace_writer

config.celery.VISIBILITY_TIMEOUT_S = {BACK_AFTER_S}
index_corpus = tasks.indexing.namespace_writer.index_corpus

def first_slowly(resources, *args, **options):
    with open(resources.settings.home / "begun", "a") as begun:
        is_first = begun.tell() == 0
        begun.write(os.environ["CHORALE_TEST_PROCESS"] + "\\n")
    if is_first:
        time.sleep({LONG_S})
    return index_corpus(resources, *args, **options)

tasks.indexing.namespace_writer.index_corpus = first_slowly
"""


@pytest.fixture
def two_workers() -> Iterator[RunningPipeline]:
    with RedisServer() as server, RunningPipeline(server, queues=[QUEUE], preload=SLOW) as running:
        running.start("another", queue=QUEUE)
        running.wait_ready()
        (running.home / "begun").touch()
        yield running


def begun(pipeline: RunningPipeline) -> list[str]:
    return (pipeline.home / "begun").read_text().split()


@pytest.mark.slow
def test_a_long_message_is_processed_by_one_worker_although_another_is_idle(
    two_workers: RunningPipeline,
) -> None:
    client = two_workers.client()
    assert client.wait_visible(client.upsert("docs", [TEA]), wait_s=LONG_S + 20).added == 1
    assert len(begun(two_workers)) == 1
    # The worker acknowledges the message after it has stored the outcome.
    until(lambda: two_workers.redis.hlen(UNACKED) == two_workers.redis.llen(QUEUE) == 0)


@pytest.mark.slow
def test_another_worker_processes_the_message_of_a_killed_worker(two_workers: RunningPipeline) -> None:
    client = two_workers.client()
    ticket = client.upsert("docs", [TEA])
    (first,) = until(lambda: begun(two_workers))
    two_workers.kill(first)
    # The other looks every 5 s for what came back.
    until(lambda: len(begun(two_workers)) == 2)
    assert client.wait_visible(ticket, wait_s=LONG_S + 20).added == 1


@pytest.fixture
def connected(redis_client: redis.Redis, redis_server: RedisServer, tmp_path: Path) -> Iterator[Connect]:
    """Makes a channel, as an index worker has one; a message waits in its queue."""
    resources = Resources(Settings(home=tmp_path), load_pipeline(), redis_server.url)
    app = make_app(resources, queues=(QUEUE,))
    app.send_task("chorale.delete", kwargs={"namespace": "docs", "ids": ["tea"]}, queue=QUEUE)
    with ExitStack() as connections:
        yield lambda: connections.enter_context(app.connection_for_read()).channel()
        redis_client.config_set("maxmemory", 0)


def fill(client: redis.Redis) -> None:
    client.config_set("maxmemory", client.info("memory")["used_memory"] // 2)


@pytest.mark.parametrize("how", ["put back", "dropped", "overdue"])
def test_a_worker_can_return_or_drop_a_message_while_the_memory_of_redis_is_full(
    connected: Connect, redis_client: redis.Redis, how: str
) -> None:
    channel = connected()
    tag = channel.basic_get(QUEUE).delivery_tag
    fill(redis_client)
    if how == "overdue":
        another = connected().qos
        another.visibility_timeout = 0
        another.restore_visible()
    else:
        channel.basic_reject(tag, requeue=how == "put back")
    assert redis_client.llen(QUEUE) == (how != "dropped")
    assert redis_client.hlen(UNACKED) == redis_client.zcard(f"{UNACKED}_index") == 0


def test_a_channel_that_waits_for_a_reply_declares_a_queue_and_still_receives_the_reply(
    connected: Connect, redis_client: redis.Redis
) -> None:
    channel = connected()
    received: list[Any] = []
    channel.queue_declare("reply")
    channel.basic_consume("reply", no_ack=True, callback=received.append, consumer_tag="1")
    with suppress(TimeoutError):
        channel.connection.drain_events(channel.connection, timeout=0.1)
    Producer(channel).publish({}, routing_key="reply")

    assert channel.queue_declare(QUEUE).message_count == 1
    channel.connection.drain_events(channel.connection, timeout=5)
    assert len(received) == 1


@pytest.mark.parametrize("kind", ["direct", "topic"])
def test_a_message_that_another_application_has_taken_stays_with_that_application(
    connected: Connect, redis_client: redis.Redis, redis_server: RedisServer, kind: str
) -> None:
    shop = Queue("shop", Exchange(f"shop-{kind}", type=kind), routing_key="shop.report")
    with Celery(
        "shop", broker=celery_url(redis_server.url), set_as_current=False
    ).connection_for_read() as connection:
        channel = connection.channel()
        connection.Producer(channel).publish(
            {}, exchange=shop.exchange, routing_key="shop.report", declare=[shop]
        )
        tag = channel.basic_get("shop").delivery_tag
        ours = connected()
        ours.basic_get(QUEUE)
        ours.qos.visibility_timeout = 0
        ours.qos.restore_visible()

        assert redis_client.llen(QUEUE) == 1  # its own message is overdue
        assert (redis_client.llen("shop"), redis_client.hkeys("unacked")) == (0, [tag.encode()])


def test_a_worker_keeps_its_claim_on_a_message_while_the_memory_of_redis_is_full(
    connected: Connect, redis_client: redis.Redis
) -> None:
    channel = connected()
    channel.qos.visibility_timeout = 1
    fill(redis_client)
    tag = channel.basic_get(QUEUE).delivery_tag

    def noted_s() -> float:
        return cast("float", redis_client.zscore(f"{UNACKED}_index", tag))

    first_s = noted_s()
    until(lambda: noted_s() > first_s)


def test_a_message_that_a_read_only_redis_keeps_from_its_queue_is_returned_later(
    connected: Connect, redis_client: redis.Redis, redis_server: RedisServer
) -> None:
    channel = connected()
    channel.qos.visibility_timeout = 1
    tag = channel.basic_get(QUEUE).delivery_tag
    with read_only(redis_server):
        channel.basic_reject(tag, requeue=True)
        assert redis_client.hlen(UNACKED) == 1

    def is_back() -> bool:
        channel.qos.restore_visible(interval=1)
        return redis_client.llen(QUEUE) == 1

    until(is_back)


def test_workers_on_hosts_with_different_clocks_take_no_message_from_each_other(
    connected: Connect, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s, off_s = time.time, 0.0
    for module in (time, kombu.transport.redis):
        monkeypatch.setattr(module, "time", lambda: now_s() + off_s)
    for one_s, another_s in ((-300.0, 0.0), (0.0, 300.0)):
        off_s = one_s
        channel = connected()
        tag = channel.basic_get(QUEUE).delivery_tag
        off_s = another_s
        connected().qos.restore_visible()
        assert (redis_client.llen(QUEUE), redis_client.hlen(UNACKED)) == (0, 1)
        off_s = 0.0
        channel.basic_reject(tag, requeue=True)
