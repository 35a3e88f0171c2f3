"""`chorale serve` as a process: why it does not start, and how it stops."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from chorale_client.keys import RATE
from redis import Redis

from tests.support.command_line import command
from tests.support.pipelines.forked_children import run_module
from tests.support.servers.http_api import HttpApi
from tests.support.servers.redis_server import free_port
from tests.support.waiting import until

BREAD = {"questions": ["how is bread baked?"], "timeout_s": 60}


@contextmanager
def serving(api: HttpApi) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    """One more process for the Redis and database of `api`, and a caller of it."""
    port = free_port()
    settings = {"CHORALE_REDIS_URL": api.settings.redis_url or "", "CHORALE_HOME": str(api.settings.home)}
    headers = {"Authorization": f"Bearer {api.key(requests_per_minute=10_000)}"}
    with subprocess.Popen(**command("serve", f"--port={port}", **settings)) as process:
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60) as client:
                until(lambda: answers(client), 60)
                yield process, client
        finally:
            process.kill()


def calls_of(client: httpx.Client, redis: Redis) -> int:
    """How many calls with the caller's key have been read."""
    return int(redis.get(RATE + client.headers["authorization"].split("_")[1]) or 0)


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/v1/searches/t.acme.unknown").status_code == 404
    except httpx.TransportError:
        return False


@pytest.mark.slow
def test_calls_that_wait_are_answered_when_the_process_stops(idle_api: HttpApi) -> None:
    with serving(idle_api) as (process, client), idle_api.redis() as redis, ThreadPoolExecutor(3) as pool:
        sent = client.post("/v1/searches", json=BREAD, headers={"Prefer": "respond-async"})
        assert sent.status_code == 202, sent.text
        place = sent.headers["location"]
        before = calls_of(client, redis)
        asking = pool.submit(client.post, "/v1/searches", json=BREAD, headers={"Prefer": "wait=50"})
        polling = pool.submit(client.get, f"{place}?wait=50")
        watching = pool.submit(client.get, f"{place}/events")
        until(lambda: calls_of(client, redis) == before + 3)
        assert not any(call.done() for call in (asking, polling, watching))
        process.send_signal(signal.SIGTERM)
        for call in (asking, polling):
            assert call.result().status_code == 202
            assert call.result().headers["location"].startswith("/v1/searches/t.acme.")
        assert "event: accepted" in watching.result().text
        assert process.wait(30) in (0, -signal.SIGTERM)
    # Another process knows the search.
    with idle_api.client() as other:
        assert other.get(place).status_code == 202
        assert other.delete(place).json()["status"] == "cancelled"


def serve(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_module("cli", "serve", *options, environment={**os.environ, **environment}, timeout_s=60)


def test_without_a_redis_it_says_what_to_do(tmp_path: Path) -> None:
    refused = serve(CHORALE_HOME=str(tmp_path), CHORALE_REDIS_URL="")
    assert refused.returncode != 0
    assert refused.stderr.startswith(f"chorale: nothing runs on {tmp_path}: start it with `chorale up`")


def test_a_port_that_is_taken_is_answered_with_one_sentence(idle_api: HttpApi) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        refused = serve(f"--port={port}", CHORALE_REDIS_URL=idle_api.settings.redis_url or "")
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"chorale: The HTTP API cannot listen on port {port} (")
    assert refused.stderr.endswith("choose another with --port\n")
