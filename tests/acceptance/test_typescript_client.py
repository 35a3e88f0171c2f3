"""examples/typescript: a client generated from the API's description compiles, and its calls are answered."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from api.openapi import FILE
from tests.support.pipelines.pipeline import CORPUS, RunningPipeline
from tests.support.servers.http_api import HttpApi
from tests.support.servers.services import missing

EXAMPLE = Path(__file__).parents[2] / "examples" / "typescript"
AWAY = ("ENOTFOUND", "ECONNREFUSED", "ETIMEDOUT", "EAI_AGAIN", "ECONNRESET", "ENETUNREACH")


@pytest.mark.long
def test_the_example_compiles_and_its_calls_are_answered(pipeline: RunningPipeline, tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        missing("without npm: it compiles the generated client")
    project = tmp_path / "examples" / "typescript"
    shutil.copytree(EXAMPLE, project)
    (tmp_path / "api").mkdir()
    shutil.copy(FILE, tmp_path / "api" / FILE.name)
    installed = npm(project, "install", "--no-audit", "--no-fund", "--prefer-offline", "--ignore-scripts")
    if installed.returncode and any(word in installed.stderr for word in AWAY):
        pytest.skip("the registry of npm does not answer")
    assert installed.returncode == 0, installed.stderr
    built = npm(project, "run", "build")
    assert built.returncode == 0, built.stdout + built.stderr
    pipeline.index(CORPUS)
    with HttpApi(pipeline.resources.settings) as api:
        done = npm(project, "run", "--silent", "start", CHORALE_URL=api.origin, CHORALE_KEY=api.key("acme"))
    assert done.returncode == 0, done.stderr
    first, *_, last = done.stdout.splitlines()
    assert (first, last) == ("1 bread", "404 not_found")


def npm(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["npm", *arguments],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=100,
    )
