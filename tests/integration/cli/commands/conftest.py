"""One running pipeline, and the command line as a person calls it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.pipelines.pipeline import ROOT, RunningPipeline
from tests.support.servers.redis_server import RedisServer

Called = subprocess.CompletedProcess[str]


@pytest.fixture(scope="package")
def pipeline() -> Iterator[RunningPipeline]:
    with RedisServer(appendonly=True) as server, RunningPipeline(server, sweeper=True) as running:
        running.index()
        yield running


def command(*arguments: str, **environment: str) -> dict[str, Any]:
    """For subprocess: `chorale` with these arguments, in exactly this environment of ours."""
    return {
        "args": [sys.executable, "-m", "cli", *arguments],
        "env": {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "dumb", "COLUMNS": "100", **environment},
        "text": True,
        "stdin": subprocess.DEVNULL,
    }


@pytest.fixture
def chorale(pipeline: RunningPipeline) -> Callable[..., Called]:
    """Run a command against the pipeline."""

    def run(*arguments: str, **environment: str) -> Called:
        called = command(*arguments, **{**pipeline.environment, **environment})
        return subprocess.run(**called, capture_output=True, timeout=60)

    return run


@pytest.fixture
def alone(tmp_path: Path) -> Callable[..., Called]:
    """Run a command on a home of its own, where nothing runs."""

    def run(*arguments: str, **environment: str) -> Called:
        called = command(*arguments, **{"CHORALE_HOME": str(tmp_path / "home"), **environment})
        return subprocess.run(**called, capture_output=True, timeout=60)

    return run
