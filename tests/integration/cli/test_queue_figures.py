"""`python -m cli.queue_figures` as a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.servers.redis_server import RedisServer, free_port
from tests.support.waiting import until

ROOT = Path(__file__).parents[3]


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.mark.slow
def test_it_serves_every_queue_and_ends_on_sigterm(redis: RedisServer, tmp_path: Path) -> None:
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "cli.queue_figures", f"--port={port}"],
        cwd=ROOT,
        env={**os.environ, "CHORALE_REDIS_URL": redis.url, "CHORALE_HOME": str(tmp_path)},
    )

    def said() -> dict[str, float] | None:
        try:
            answer = httpx.get(f"http://127.0.0.1:{port}/chorale.bm25")
        except httpx.TransportError:
            return None
        found: dict[str, float] = answer.json()
        return found if answer.status_code == 200 else None

    try:
        assert until(said) == {"length": 0, "age_s": 0.0}
        redis.client().rpush("chorale.bm25", "a message of nobody's")
        until(lambda: (said() or {}).get("length") == 1)
        process.send_signal(signal.SIGTERM)
        # The first process of a container gets no signal that it does not ask for: it has to end by itself.
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
