"""Who names a namespace that is not there learns which ones are there, as far as they are its business, and no path of the
server; the log has both."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery.result import AsyncResult
from chorale_client.adapters.connection import Connection
from chorale_client.errors import InvalidRequest
from chorale_client.wire_names import QUEUE_RETRIEVE, TASK_RETRIEVE

from tests.integration.tasks.answers import reasons
from tests.support.pipelines.pipeline import RunningPipeline, logging_to
from tests.support.servers.http_api import HttpApi
from tests.support.servers.redis_server import RedisServer

pytestmark = pytest.mark.slow

ASKED: dict[str, Any] = {"namespace": "nowhere", "branches": ["bm25"], "timeout_s": 20}
SECRET = "payroll"
WRONG = "there is no namespace 'nowhere'"
DETAIL = f"{WRONG}; there are: {SECRET}"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / "worker.log"


@pytest.fixture(scope="module")
def pipeline(log: Path) -> Iterator[RunningPipeline]:
    queues = ["chorale.retrieve,chorale.bm25,chorale.fusion,chorale.index"]
    with RedisServer() as server, RunningPipeline(server, queues=queues, preload=logging_to(log)) as running:
        running.index(namespace=SECRET)
        yield running


@pytest.fixture
def learns_no_path(pipeline: RunningPipeline, log: Path) -> Iterator[Any]:
    """Checks what callers are told, and afterwards that the worker's log also says where the worker looked."""
    texts: list[str] = []
    yield texts.append
    assert texts
    assert not any(str(pipeline.home) in text for text in texts)
    assert f"database; there are: {SECRET}" in log.read_text()


@pytest.fixture
def learns_nothing(learns_no_path: Any) -> Any:
    """Checks what callers are told who may not know other namespaces."""

    def check(text: str) -> None:
        assert SECRET not in text
        learns_no_path(text)

    return check


def test_a_caller_of_the_client_learns_which_namespaces_there_are_and_no_path(
    pipeline: RunningPipeline, learns_no_path: Any
) -> None:
    answer = pipeline.client().retrieve("bread", **ASKED)
    assert (answer.status, reasons(answer)) == ("failed", [("search.bm25", "bad_index")])
    assert answer.degraded[0].detail == DETAIL
    learns_no_path(answer.model_dump_json())


def test_an_adapter_raises_an_error_that_says_which_namespaces_there_are(
    pipeline: RunningPipeline, learns_no_path: Any
) -> None:
    with pytest.raises(InvalidRequest) as raised:
        Connection(pipeline.server.url).ask("bread", ASKED)
    assert str(raised.value) == DETAIL
    learns_no_path(str(raised.value))


def test_a_caller_of_the_celery_task_learns_which_namespaces_there_are_and_no_path(
    pipeline: RunningPipeline, learns_no_path: Any
) -> None:
    given = {"questions": ["bread"], "request_id": "asked-by-celery", **ASKED}
    pipeline.app.send_task(TASK_RETRIEVE, args=[given], queue=QUEUE_RETRIEVE)
    answer = AsyncResult("asked-by-celery", app=pipeline.app).get(timeout=20)
    assert answer["degraded"][0]["detail"] == DETAIL
    learns_no_path(json.dumps(answer))


def test_a_caller_over_http_learns_of_the_namespaces_of_its_key_alone(
    pipeline: RunningPipeline, learns_nothing: Any, learns_no_path: Any
) -> None:
    asked = {"questions": ["bread"], **ASKED}
    with HttpApi(pipeline.resources.settings) as api:
        for names, check, told in (
            ({"nowhere"}, learns_nothing, WRONG),
            ({"nowhere", SECRET}, learns_no_path, DETAIL),
            (None, learns_no_path, DETAIL),
        ):
            with api.client("acme", namespaces=names and frozenset(names)) as client:
                response = client.post("/v1/searches", json=asked)
            assert (response.status_code, response.json()["detail"]) == (404, told)
            check(response.text)


def test_a_caller_of_the_mcp_tool_learns_neither_paths_nor_namespaces(
    pipeline: RunningPipeline, learns_nothing: Any
) -> None:
    # They take seconds to import, in each process that collects the tests.
    from chorale_client.adapters.mcp import mcp_server
    from mcp.client import Client

    options: Any = {"branches": ["bm25"], "timeout_s": 20}

    async def called() -> str:
        async with Client(mcp_server(pipeline.server.url, options=options, namespaces=["nowhere"])) as client:
            answer = await client.call_tool("search", {"query": "bread"})
            return str(answer.model_dump_json())

    learns_nothing(asyncio.run(called()))


def test_a_caller_that_hands_in_documents_learns_no_path(
    pipeline: RunningPipeline, learns_no_path: Any
) -> None:
    client = pipeline.client()
    for ticket in (client.delete("nowhere", ["a"]), client.delete_namespace("nowhere")):
        report = client.wait_visible(ticket, wait_s=20)
        assert (report.error or "").startswith(WRONG)
        learns_no_path(repr(report))
