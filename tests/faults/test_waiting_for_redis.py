"""A worker that waits for Redis ends at once at a signal to stop, not after its next attempt."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support.pipelines.forked_children import start_module
from tests.support.waiting import until

NEVER_AGAIN_S = 3_600
"""The pause before the second attempt, far beyond the time limit of the test."""

PRELOAD = f"""
from tasks.worker import worker_process
worker_process.AGAIN_S = worker_process.LONGEST_AGAIN_S = {NEVER_AGAIN_S}
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_ends_before_its_next_attempt_to_reach_redis(tmp_path: Path, number: signal.Signals) -> None:
    variables = {"CHORALE_HOME": str(tmp_path), "CHORALE_REDIS_URL": "redis://127.0.0.1:1/0"}
    environment, log = {**os.environ, **variables}, tmp_path / "worker.log"
    with log.open("w") as output:
        process = start_module(
            *("cli", "worker", "bm25"),
            environment=environment,
            out=output.fileno(),
            err=output.fileno(),
            preload=PRELOAD,
        )
    try:
        until(lambda: "waits for Redis" in log.read_text() or process.poll() is not None, 60)
        process.send_signal(number)
        assert process.wait(60) == 0, log.read_text()
    finally:
        process.kill()
    assert "Traceback" not in log.read_text()
