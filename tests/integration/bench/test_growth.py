"""`chorale bench growth` with a small corpus: a row for each combination, whatever its values."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
OPTIONS = ["--passages", "1000", "--passages", "1500", "--processes", "1", "--processes", "2"]
FEW = ["--in-flight", "1", "--in-flight", "4", "--questions", "4"]


@pytest.mark.slow
@pytest.mark.serial
def test_every_combination_has_a_row_with_the_processor_time_of_each_role(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cli", "bench", "growth", "--json", *OPTIONS, *FEW],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    runs = json.loads(done.stdout)["runs"]
    assert [(run["passages"], run["processes"], run["in_flight"]) for run in runs] == [
        (passages, processes, in_flight)
        for passages in (1_000, 1_500)
        for processes in (1, 2)
        for in_flight in (1, 4)
    ]
    for run in runs:
        assert run["p50_ms"] > 0
        assert run["hung"] == 0
        assert run["cpu_ms"].keys() == {"bm25", "vector", "hyde", "fusion", "sweeper", "redis", "caller"}
    assert not list(tmp_path.glob("chorale-*"))
