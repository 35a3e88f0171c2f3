"""A worker that serves the fusion, too, ends the requests that it completes, without a message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from chorale_client import make_request
from chorale_client.words import QUEUE_FUSION
from pydantic_core import from_json
from redis import Redis

from assembly.pipeline import load_pipeline
from assembly.resources import Resources
from config.settings import Settings
from models.documents import Manifest
from tasks.registration import make_app
from tasks.request.batch import make_intake
from tasks.request.retrieve import submit
from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.servers.redis_server import RedisServer

BM25 = "chorale.bm25"


@pytest.mark.parametrize("is_fused_here", [True, False])
def test_the_last_report_of_a_request_ends_it_where_the_worker_serves_the_fusion(
    redis_client: Redis,
    redis_server: RedisServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_fused_here: bool,
) -> None:
    monkeypatch.setattr(Resources, "fingerprints", {"embedder": "none"})
    resources = Resources(Settings(home=tmp_path, embedder="none"), load_pipeline(), redis_server.url)
    resources.__dict__["indexing_embedder"] = HashingEmbedder()
    resources.writing_store.create("default", Manifest("none", "en", "none", "none", 1))
    app = make_app(resources)
    ids = [
        submit(resources, app.fanout, make_request(text, branches=["bm25"], cache="bypass", timeout_s=60))
        for text in ("bread", "repairs")
    ]
    first: Any = redis_client.rpop(BM25)
    make_intake(app, [BM25, QUEUE_FUSION] if is_fused_here else [BM25]).take(
        from_json(first), BM25, lambda *_: pytest.fail("the message goes Celery's way")
    )
    ended = [resources.callers_ledger.result(request_id) is not None for request_id in ids]
    assert ended == [is_fused_here] * 2
    assert redis_client.llen(QUEUE_FUSION) == (0 if is_fused_here else 2)
