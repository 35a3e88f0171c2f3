"""The comparison of the clients' ways to send."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.pipelines.pipeline import PYTHONPATH, ROOT
from tests.support.servers.redis_server import RedisServer


@pytest.mark.slow
def test_every_way_answers_every_request(own_redis_server: RedisServer) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.clients", own_redis_server.url, "--requests", "5", "--rounds", "1"],
        cwd=ROOT,
        env={"PYTHONPATH": PYTHONPATH},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len({(line["name"], line["in_flight"]) for line in lines}) == len(lines) == 12
    assert all(line["hung"] == 0 and line["requests_per_s"] > 0 for line in lines)
