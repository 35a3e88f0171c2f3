"""A worker of `chorale.index` with two namespaces: the documents of one do not wait for all documents of the other."""

from __future__ import annotations

import pytest

from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

EVENTS, HANDED_IN = "test:events", "test:handed_in"

NOTED = f"""
import os, time
from redis import Redis
from inference.backends import EMBEDDERS
from tests.bench import given_vectors
from tasks.indexing.message_order import TURN_S

class Noting(given_vectors.GivenVectors):
    def embed_passages(self, texts, **options):
        name = "heavy" if "heavy" in texts[0] else "light"
        with Redis.from_url(os.environ["CHORALE_REDIS_URL"]) as redis:
            is_first = redis.rpush({EVENTS!r}, name) == 1
            give_up = time.monotonic() + 60
            while is_first and not redis.exists({HANDED_IN!r}) and time.monotonic() < give_up:
                time.sleep(0.02)
        if is_first:
            time.sleep(1.5 * TURN_S)
        return super().embed_passages(texts, **options)

given_vectors.Noting = Noting
EMBEDDERS["given"] = "tests.bench.given_vectors:Noting"
"""
"""Code for `preload`: notes what is embedded.  The first passages take longer than a turn, and until the test has handed in both."""


@pytest.mark.slow
def test_a_small_document_of_one_namespace_comes_before_the_rest_of_a_heavy_one_of_another() -> None:
    with (
        RedisServer() as server,
        RunningPipeline(
            server,
            queues=["chorale.index"],
            environment={"CHORALE_EMBEDDER_BACKEND": "given"},
            preload=NOTED,
        ) as running,
    ):
        client = running.client()
        text = "\n\n".join(f"heavy paragraph {number} " + "and so on " * 60 for number in range(300))
        heavy = client.upsert("heavy", [{"id": "book", "text": text}])
        until(lambda: running.redis.llen(EVENTS), 30)
        light = client.upsert("light", [{"id": "note", "text": "a short note"}])
        running.redis.set(HANDED_IN, 1)
        assert client.wait_visible(light, wait_s=60).added == 1
        assert client.wait_visible(heavy, wait_s=60).added == 1
        events = running.redis.lrange(EVENTS, 0, -1)
        assert events.count(b"light") == 1
        assert events.index(b"light") < 4 < events.count(b"heavy"), events
