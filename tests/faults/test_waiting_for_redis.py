"""A worker that waits for Redis ends at once when it is told to stop, not after its next attempt."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pipelines.pipeline import PYTHONPATH, ROOT
from tests.support.waiting import until

NEVER_AGAIN_S = 3_600
"""The pause before the second attempt, far beyond the time limit of the test."""

WORKER = f"""
import runpy, sys
from tasks.worker import worker_process
worker_process.AGAIN_S = worker_process.LONGEST_AGAIN_S = {NEVER_AGAIN_S}
sys.argv = ["chorale", "worker", "bm25"]
runpy.run_module("cli", run_name="__main__")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_ends_before_its_next_attempt_to_reach_redis(tmp_path: Path, number: signal.Signals) -> None:
    environment = {"CHORALE_HOME": str(tmp_path), "CHORALE_REDIS_URL": "redis://127.0.0.1:1/0"}
    log = tmp_path / "worker.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", WORKER],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": PYTHONPATH, **environment},
            stdout=output,
            stderr=output,
        )
    try:
        until(lambda: "waits for Redis" in log.read_text() or process.poll() is not None, 60)
        process.send_signal(number)
        assert process.wait(60) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
    assert "Traceback" not in log.read_text()
