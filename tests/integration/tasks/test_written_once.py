"""How often a request or a document is dumped to JSON on its way from the caller to Redis."""

from __future__ import annotations

from typing import Any

import pytest
from chorale_client import Chorale
from chorale_client.request import Request
from redis import Redis

from tests.support.json_dumps import recorded_dumps
from tests.support.pipelines.one_process import OneProcess
from tests.support.servers.redis_server import RedisServer


@pytest.fixture
def dumps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The text of each dump that holds the questions."""
    written: list[str] = []
    dump = Request.model_dump_json

    def recorded(self: Request, **options: Any) -> str:
        text = dump(self, **options)
        written.extend([text] if '"questions"' in text else [])
        return text

    monkeypatch.setattr(Request, "model_dump_json", recorded)
    return written


def test_the_client_dumps_a_request_once(here: OneProcess, dumps: list[str]) -> None:
    here.client().submit("who pays for repairs?", timeout_s=1)
    assert len(dumps) == 1


def test_a_process_that_accepts_and_plans_a_request_dumps_it_once(here: OneProcess, dumps: list[str]) -> None:
    here.submit("who pays for repairs?")
    assert len(dumps) == 1


def test_the_client_dumps_a_document_once(
    redis_client: Redis, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    dumps = recorded_dumps(monkeypatch, "Green tea is brewed")
    Chorale(redis_server.url).upsert(
        "docs", [{"id": "tea", "text": "Green tea is brewed at eighty degrees."}]
    )
    assert len(dumps) == 1
