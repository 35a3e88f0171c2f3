"""Two branches search with a question's vector, and their common worker embeds the question once."""

from __future__ import annotations

import pytest

from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer

COUNT = """
import os, redis
from inference.embedding.text_embedder import TextEmbedder

embed, server = TextEmbedder.embed_questions, redis.Redis.from_url(os.environ["CHORALE_REDIS_URL"])

def counted(self, texts):
    server.incrby("embedded", len(texts))
    return embed(self, texts)

TextEmbedder.embed_questions = counted
"""


@pytest.mark.slow
def test_a_worker_of_vector_and_hyde_embeds_each_question_once(own_redis_server: RedisServer) -> None:
    queues = ["chorale.retrieve", "chorale.bm25", "chorale.fusion"]
    with RunningPipeline(own_redis_server, queues=queues, preload=COUNT) as pipeline:
        pipeline.start("vector+hyde-1", queue="chorale.vector,chorale.hyde")
        pipeline.wait_ready()
        pipeline.index()
        pipeline.redis.delete("embedded")
        for number in range(10):
            text = f"who pays for repairs of {number} things?"
            answer = pipeline.client().retrieve(text, include=["ids", "explanation"], timeout_s=10)
            assert answer.status == "complete"
            assert {"vector", "hyde"} <= {name for hit in answer.hits for name in hit.branches}
        assert pipeline.redis.get("embedded") == b"10"
