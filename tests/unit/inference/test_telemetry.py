"""ONNX Runtime sends no telemetry."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_importing_an_embedder_turns_the_runtimes_telemetry_off(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    code = "import inference.onnx_graphs.onnx_bert, os; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, "TMPDIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.strip() == "1"
    assert list(tmp_path.iterdir()) == []
