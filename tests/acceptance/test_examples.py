"""The examples run as a reader would run them: outside this folder, against a running pipeline."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pipelines.pipeline import CORPUS, RunningPipeline

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_an_example_finds_the_document_that_answers(
    example: Path, pipeline: RunningPipeline, tmp_path: Path
) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    found = subprocess.run(
        [sys.executable, "-I", str(example)],
        cwd=tmp_path,
        env={**environ, "CHORALE_REDIS_URL": pipeline.server.tcp_url},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert found.returncode == 0, found.stderr
    assert found.stderr == ""
    title, _ = CORPUS["repairs"]
    assert f"\n1 {title}" in f"\n{found.stdout}"
