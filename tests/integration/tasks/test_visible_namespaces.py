"""A caller that names an unknown namespace gets the names of those that it may know, and no path of the server; the log has
both."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from functools import partial
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

OPTIONS: dict[str, Any] = {"namespace": "nowhere", "branches": ["bm25"], "timeout_s": 20}
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


Response = tuple[str, str]
"""The error that a caller gets, and all of the answer."""


def by_client(pipeline: RunningPipeline) -> Response:
    answer = pipeline.client().retrieve("bread", **OPTIONS)
    assert (answer.status, reasons(answer)) == ("failed", [("search.bm25", "bad_index")])
    return answer.degraded[0].detail, answer.model_dump_json()


def by_adapter(pipeline: RunningPipeline) -> Response:
    with pytest.raises(InvalidRequest) as raised:
        Connection(pipeline.server.url).ask("bread", OPTIONS)
    return str(raised.value), str(raised.value)


def by_celery(pipeline: RunningPipeline) -> Response:
    request = {"questions": ["bread"], "request_id": "asked-by-celery", **OPTIONS}
    pipeline.app.send_task(TASK_RETRIEVE, args=[request], queue=QUEUE_RETRIEVE)
    answer = AsyncResult("asked-by-celery", app=pipeline.app).get(timeout=20)
    return answer["degraded"][0]["detail"], json.dumps(answer)


def by_http(names: set[str] | None, pipeline: RunningPipeline) -> Response:
    allowed = names and frozenset(names)
    with HttpApi(pipeline.resources.settings) as api, api.client("acme", namespaces=allowed) as client:
        response = client.post("/v1/searches", json={"questions": ["bread"], **OPTIONS})
    assert response.status_code == 404
    return response.json()["detail"], response.text


def by_mcp(pipeline: RunningPipeline) -> Response:
    # They take seconds to import, in each process that collects the tests.
    from chorale_client.adapters.mcp import mcp_server
    from mcp.client import Client

    options: Any = {"branches": ["bm25"], "timeout_s": 20}

    async def called() -> str:
        async with Client(mcp_server(pipeline.server.url, options=options, namespaces=["nowhere"])) as client:
            answer = await client.call_tool("search", {"query": "bread"})
            return str(answer.model_dump_json())

    return "", asyncio.run(called())


def by_documents(pipeline: RunningPipeline) -> Response:
    client = pipeline.client()
    tickets = client.delete("nowhere", ["a"]), client.delete_namespace("nowhere")
    reports = [client.wait_visible(ticket, wait_s=20) for ticket in tickets]
    errors = {(report.error or "").partition(";")[0] for report in reports}
    assert len(errors) == 1
    return errors.pop(), repr(reports)


CALLERS: dict[str, tuple[Callable[[RunningPipeline], Response], str, bool]] = {
    "the client": (by_client, DETAIL, True),
    "an adapter": (by_adapter, DETAIL, True),
    "the Celery task": (by_celery, DETAIL, True),
    "HTTP with a key for this namespace": (partial(by_http, {"nowhere"}), WRONG, False),
    "HTTP with a key for both": (partial(by_http, {"nowhere", SECRET}), DETAIL, True),
    "HTTP with a key for all": (partial(by_http, None), DETAIL, True),
    "the MCP tool": (by_mcp, "", False),
    "documents": (by_documents, WRONG, True),
}
"""Each caller with the error that it gets, and whether it may know the other namespace."""


@pytest.mark.parametrize(("call", "error", "may_know"), CALLERS.values(), ids=CALLERS)
def test_a_caller_learns_which_of_its_namespaces_there_are_and_no_path(
    pipeline: RunningPipeline,
    log: Path,
    call: Callable[[RunningPipeline], Response],
    error: str,
    may_know: bool,
) -> None:
    detail, whole = call(pipeline)
    assert detail == error
    assert may_know or SECRET not in whole
    assert str(pipeline.home) not in whole
    assert f"database; there are: {SECRET}" in log.read_text()
