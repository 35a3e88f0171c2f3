"""`chorale bench bulk` at a small size: a job and its rivals answer the same questions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

OPTIONS = ["--questions", "200", "--requests", "20", "--documents", "100"]
ROOT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.serial
def test_every_figure_is_there_and_nothing_is_left_behind(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cli", "bench", "bulk", "--json", *OPTIONS],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["v"] == 1
    assert [run["name"] for run in found["runs"]] == ["job", "in_process", "encoder"]
    assert all(run["questions_per_s"] > 0 for run in found["runs"])
    shown = found["interactive"]
    assert 0 < shown["alone_p50_ms"] <= shown["alone_p95_ms"]
    assert 0 < shown["beside_p50_ms"] <= shown["beside_p95_ms"]
    assert shown["hung"] == 0
    assert not list(tmp_path.glob("chorale-*"))
