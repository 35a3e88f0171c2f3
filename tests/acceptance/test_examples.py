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
    done = subprocess.run(
        [sys.executable, "-I", str(example)],
        cwd=tmp_path,
        env={**environ, "CHORALE_REDIS_URL": pipeline.server.tcp_url},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    title, _ = CORPUS["repairs"]
    assert f"\n1 {title}" in f"\n{done.stdout}"


def test_the_celery_application_without_an_address_says_which_variable_names_it() -> None:
    example = EXAMPLES[0].parent / "celery" / "application.py"
    called = subprocess.run(
        [sys.executable, str(example)], env={}, capture_output=True, text=True, timeout=60
    )
    assert (called.returncode, called.stdout) == (1, "")
    assert called.stderr == (
        'no Redis is named: eval "$(chorale env --celery)" sets CHORALE_REDIS_URL; or set REDIS_URL\n'
    )
