"""What a program hands in is indexed, or reported with its reason."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis
from chorale_client import Chorale

from config.settings import Settings
from models.not_indexed import NotIndexed
from tasks.registration import make_app
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.models.used_embedder import use_embedder
from tests.support.not_indexed import ROWS
from tests.support.servers.redis_server import RedisServer


def test_each_document_of_a_message_is_indexed_or_reported_with_its_reason(
    redis_client: redis.Redis, redis_server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = "search.documents.document_rows.refusal_reason"
    monkeypatch.setattr(refused, lambda document: "too large" if document.document_id == "refused" else None)
    resources = Resources(Settings(home=tmp_path), load_pipeline(), redis_server.url)
    use_embedder(resources, HashingEmbedder())
    given = [{"id": "good", "text": "Roses are cut."}, *(row for rows in ROWS.values() for row in rows)]
    # A message of a program without our client, which refuses some of these documents itself.
    message = {"namespace": "docs", "documents": given}
    make_app(resources).tasks["chorale.index"].apply(kwargs=message, task_id="ticket").get()
    indexed = Chorale(redis_server.url).wait_visible("ticket")
    assert indexed.error is None
    assert indexed.reasons == {reason: 1 for reason in NotIndexed if reason in ROWS}
    assert len(indexed.skipped) == len(ROWS)
    not_indexed = sum(count for reason, count in indexed.reasons.items() if not NotIndexed(reason).is_part)
    assert indexed.added + not_indexed == len(given)
