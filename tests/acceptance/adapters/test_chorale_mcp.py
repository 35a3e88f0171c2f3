"""`chorale mcp` as a program, asked by the SDK's own client over stdio and over streamable HTTP."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import httpx2
import pytest
from chorale_client.adapters.mcp import mcp_server
from chorale_client.keys import RATE
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult
from typer.testing import CliRunner

from cli.app import app
from cli.local.ports import Address
from cli.mcp_over_http import app_with_keys, server_of, within_the_key
from config.settings import Settings
from models.errors import WrongDeclaration
from records.keys.grant import Grant
from records.keys.key_store import KeyStore
from tests.contracts.adapter import QUESTION, patient
from tests.support.pipelines.pipeline import PYTHONPATH, ROOT, RunningPipeline
from tests.support.servers.redis_server import RedisServer, free_port
from tests.support.waiting import until

HEALTHY = patient(branches=["bm25", "vector"])
PROGRAM = [sys.executable, "-m", "cli", "mcp"]


def environment(pipeline: RunningPipeline) -> dict[str, str]:
    return {**os.environ, **pipeline.environment, "PYTHONPATH": PYTHONPATH}


async def ask(server: Any, tool: str, arguments: dict[str, Any]) -> CallToolResult:
    async with Client(server) as client:
        return await client.call_tool(tool, arguments)


def ids(result: CallToolResult) -> list[str]:
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return [one["id"] for one in result.structured_content["results"]]


def test_a_search_over_stdio_finds_documents_and_names_the_failed_branch(pipeline: RunningPipeline) -> None:
    server = StdioServerParameters(
        command=PROGRAM[0], args=PROGRAM[1:], env=environment(pipeline), cwd=str(ROOT)
    )
    arguments = {"query": QUESTION, "branches": ["bm25", "raises"], "top_k": 1}
    result = asyncio.run(ask(server, "chorale_search", arguments))
    assert ids(result) == ["repairs"]
    assert result.structured_content is not None
    assert result.structured_content["coverage"]["branches"] == {"bm25": "ok", "raises": "error"}


def test_over_http_on_this_machine_without_keys_and_the_server_stops_although_a_call_is_open(
    pipeline: RunningPipeline,
) -> None:
    address = Address("127.0.0.1", free_port())
    command = [*PROGRAM, "--http", str(address), "--without-keys"]
    settings = {**environment(pipeline), "CHORALE_SOFT_SHUTDOWN_S": "1"}
    with subprocess.Popen(command, cwd=ROOT, env=settings) as process:
        try:
            until(lambda: process.poll() is not None or listens(address), 60)
            arguments = {"query": QUESTION, "branches": ["bm25"]}
            assert ids(asyncio.run(ask(f"http://{address}/mcp", "chorale_search", arguments)))[0] == "repairs"
            with socket.create_connection((address.host, address.port)) as caller:
                caller.sendall(
                    b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                    b"Accept: application/json, text/event-stream\r\nContent-Length: 100\r\n\r\n{"
                )
                process.terminate()
                assert process.wait(60) == -signal.SIGTERM
        finally:
            process.kill()


def listens(address: Address) -> bool:
    try:
        socket.create_connection((address.host, address.port)).close()
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def keyed(pipeline: RunningPipeline) -> Iterator[tuple[str, KeyStore]]:
    """The address of a server that wants keys, and the keys of its installation."""
    with serving_with_keys(pipeline.resources.settings, pipeline.server.url) as served:
        yield served


@contextmanager
def serving_with_keys(
    settings: Settings, redis_url: str | Mapping[str, str]
) -> Iterator[tuple[str, KeyStore]]:
    address = Address("127.0.0.1", free_port())
    made = mcp_server(redis_url, options=HEALTHY, namespaces=["default", "books"], allow=within_the_key)
    server = server_of(app_with_keys(made, address, settings), address, settings)
    keys = KeyStore(settings.audit_database_url)
    serving = Thread(target=server.run)
    serving.start()
    until(lambda: server.started)
    yield f"http://{address}/mcp", keys
    server.should_exit = True
    serving.join()
    keys.close()


def grant(**rights: Any) -> Grant:
    usual: Mapping[str, Any] = {"namespaces": None, "scopes": frozenset({"search:run"})}
    return Grant(**{"key_id": "", "tenant": "", **usual, **rights})


async def ask_with_key(
    keyed: tuple[str, KeyStore], rights: Grant, tool: str, arguments: dict[str, Any]
) -> CallToolResult:
    url, keys = keyed
    key = keys.create(rights).text
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=30) as http:
        return await ask(streamable_http_client(url, http_client=http), tool, arguments)


@pytest.mark.parametrize(
    "authorization", [None, "", "Basic abc", "Bearer", "Bearer chorale_a_b", "Bearer \xff"]
)
def test_without_a_key_or_with_a_wrong_one_nothing_is_served(
    keyed: tuple[str, KeyStore], authorization: str | None
) -> None:
    headers = {} if authorization is None else {"Authorization": authorization.encode("latin-1")}
    answered = httpx2.post(keyed[0], headers=headers, json={})  # type: ignore[arg-type]
    assert answered.status_code == 401
    assert answered.headers["www-authenticate"] == "Bearer"
    assert answered.json()["code"] == "unauthenticated"


def test_a_key_finds_what_it_may_find(keyed: tuple[str, KeyStore], pipeline: RunningPipeline) -> None:
    arguments = {"query": QUESTION, "branches": ["vector"], "filters": {"year": {"gte": 2000}}}
    result = asyncio.run(
        ask_with_key(keyed, grant(tenant="acme", filters={"year": 2020}), "chorale_search", arguments)
    )
    assert ids(result) == ["error"]
    assert result.structured_content is not None
    assert result.structured_content["coverage"]["request_id"].startswith("t.acme.")


@pytest.mark.parametrize("limits", [{"max_top_k": 5, "max_depth": 100}, {"max_depth": 100}])
def test_fetch_keeps_to_the_limits_of_a_key(keyed: tuple[str, KeyStore], limits: dict[str, int]) -> None:
    limited = grant(filters={"year": 2020}, **limits)
    fetched = asyncio.run(ask_with_key(keyed, limited, "fetch", {"id": "error"}))
    assert fetched.structured_content is not None
    assert fetched.structured_content["text"].startswith("ERR-4711")
    hidden = asyncio.run(ask_with_key(keyed, limited, "fetch", {"id": "bread"}))
    assert hidden.is_error


def test_a_forbidden_namespace_and_an_unknown_one_give_the_same_error(keyed: tuple[str, KeyStore]) -> None:
    def text(rights: Grant, namespace: str) -> str:
        arguments = {"query": "x", "namespace": namespace}
        refused = asyncio.run(ask_with_key(keyed, rights, "chorale_search", arguments))
        assert refused.is_error
        return str(refused.content[0].text).removeprefix("Error executing tool chorale_search: ")  # type: ignore[union-attr]

    only_default = grant(namespaces=frozenset({"default"}))
    assert text(only_default, "books") == "there is no namespace 'books' here"
    assert text(only_default, "nothing") == "there is no namespace 'nothing' here"
    assert text(grant(scopes=frozenset({"jobs:write"})), "default") == "this key lacks the scope 'search:run'"


def test_all_cells_count_the_calls_of_a_key_together_and_the_next_one_counts_for_a_lost_one(
    tmp_path: Path,
) -> None:
    with RedisServer() as a, RedisServer() as b:
        cells = {"a": a.url, "b": b.url}
        with serving_with_keys(Settings(home=tmp_path, cells=cells), cells) as (url, keys):
            headers = {"Authorization": f"Bearer {keys.create(grant(requests_per_minute=1)).text}"}

            def is_refused() -> bool:
                return httpx2.post(url, headers=headers, json={}).status_code == 429

            assert [is_refused(), is_refused()] == [False, True]
            with a.client() as redis:
                counting = a if redis.keys(RATE + "*") else b
            counting.kill()
            assert [is_refused(), is_refused()] == [False, True]


def test_a_key_that_calls_too_often_learns_when_to_call_again(keyed: tuple[str, KeyStore]) -> None:
    url, keys = keyed
    key = keys.create(grant(requests_per_minute=1)).text
    codes = []
    for _ in range(2):
        answered = httpx2.post(url, headers={"Authorization": f"Bearer {key}"}, json={})
        codes.append(answered.status_code)
    assert codes[0] != 429
    assert codes[1] == 429
    assert answered.headers["ratelimit-policy"] == '"minute";q=1;w=60'


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--without-keys"], "--without-keys needs --http with a loopback address"),
        (["--http", "0.0.0.0:8100", "--without-keys"], "--without-keys needs --http with a loopback address"),
        (["--http", "here"], "'here' is no address such as 127.0.0.1:8000"),
    ],
)
def test_wrong_usage_is_answered_with_one_sentence(options: list[str], complaint: str) -> None:
    with pytest.raises(WrongDeclaration, match=complaint):
        CliRunner().invoke(app, ["mcp", *options], catch_exceptions=False)
