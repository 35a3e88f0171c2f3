"""`chorale bench latency` with a few questions: every figure is there, whatever its value."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

OPTIONS = ["--questions", "3", "--documents", "100", "--in-flight", "1", "--in-flight", "16"]
ROOT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.serial
def test_every_figure_is_there_and_nothing_is_left_behind(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cli", "bench", "latency", "--json", *OPTIONS],
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
    names = ["chord", "in_process", "plain_chord", "cache"]
    assert [(run["name"], run["in_flight"]) for run in found["runs"]] == [
        (name, in_flight) for in_flight in (1, 16) for name in names
    ]
    for run in (*found["runs"], *found["no_op_runs"]):
        assert 0 < run["p50_ms"] <= run["p95_ms"] <= run["p99_ms"]
        assert run["requests_per_s"] > 0
        assert run["name"] == "plain_chord" or run["hung"] == 0
        assert {"caller", "redis"} <= run["cpu_ms"].keys()
    assert {run["name"] for run in found["no_op_runs"]} == {"chord", "in_process", "plain_chord"}
    # accept, plan, three starts, three reports, join, finish; and what waiting and the audit need
    assert 10 <= found["redis_commands_per_request"] <= 20
    assert found["redis_bytes_left_per_request"] > 0
    # a row for the request, its question and each branch, and for each hit
    assert found["audit_rows_per_request"] > 5
    assert [one["in_flight"] for one in found["redis_at"]] == [1, 16]
    for one in found["redis_at"]:
        assert 0 < one["commands"] < one["operations"]
        assert one["bytes_moved"] > 0
    assert set(found["cpu_ms_per_request"]) >= {*names, "chord, no-op"}
    assert {"plan", "search.bm25", "search.vector", "search.hyde", "fuse", "fetch"} <= {
        line["stage"] for line in found["waterfall"]
    }
    assert not list(tmp_path.glob("chorale-*"))
