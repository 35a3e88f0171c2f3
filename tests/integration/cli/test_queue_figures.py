"""`python -m cli.queue_figures` as a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.support.servers.redis_server import RedisServer, free_port
from tests.support.waiting import until

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_it_serves_every_queue_and_ends_on_sigterm(own_redis_server: RedisServer, tmp_path: Path) -> None:
    port = free_port()
    environment = {**os.environ, "CHORALE_REDIS_URL": own_redis_server.url, "CHORALE_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "cli.queue_figures", f"--port={port}"]

    def figures() -> dict[str, float]:
        with suppress(httpx.TransportError):
            response = httpx.get(f"http://127.0.0.1:{port}/chorale.bm25", timeout=30)
            return response.json() if response.status_code == 200 else {}
        return {}

    with subprocess.Popen(command, cwd=ROOT, env=environment) as process:
        try:
            assert until(figures) == {"length": 0, "age_s": 0.0}
            own_redis_server.client().rpush("chorale.bm25", "a message of nobody's")
            until(lambda: figures().get("length") == 1)
            process.send_signal(signal.SIGTERM)
            # The first process of a container gets no signal that it does not ask for: it has to end by itself.
            assert process.wait(20) == 0
        finally:
            process.kill()
