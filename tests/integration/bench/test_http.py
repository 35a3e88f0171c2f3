"""`chorale bench http` with a few questions: a row for each way and number in flight, whatever its values."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
OPTIONS = ["--questions", "3", "--documents", "100", "--in-flight", "1", "--in-flight", "2"]


@pytest.mark.slow
@pytest.mark.serial
def test_both_ways_answer_the_same_questions(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cli", "bench", "http", "--json", *OPTIONS],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    runs = json.loads(done.stdout)["runs"]
    assert [(run["name"], run["in_flight"]) for run in runs] == [
        ("client", 1),
        ("http", 1),
        ("client", 2),
        ("http", 2),
    ]
    assert all(run["p50_ms"] > 0 and run["requests_per_s"] > 0 and run["hung"] == 0 for run in runs)
    assert runs[1]["cpu_ms"]["http"] > 0
    assert not list(tmp_path.glob("chorale-*"))
