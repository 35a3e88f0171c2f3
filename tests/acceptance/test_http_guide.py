"""The shell of docs/guides/http.md runs as it stands, against a real API."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.code_blocks import code_blocks
from tests.support.pipelines.pipeline import CORPUS, RunningPipeline
from tests.support.servers.http_api import HttpApi

PAGE = "docs/guides/http.md"
JOBS_PAGE = "docs/guides/http-jobs.md"


@pytest.fixture(scope="module")
def api(pipeline: RunningPipeline) -> Iterator[HttpApi]:
    pipeline.index(CORPUS, namespace="docs")
    with HttpApi(pipeline.resources.settings) as served:
        yield served


def said(page: str, api: HttpApi, folder: Path) -> str:
    """What the page's shell prints."""
    script = "\n".join(block.code for block in code_blocks("sh") if block.page == page)
    script, keys = re.subn(r"(?<=export KEY=)\S+", api.key("acme"), script)
    script, addresses = re.subn(r"http://127\.0\.0\.1:8000", api.origin, script)
    assert (keys, addresses) == (1, 1)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return done.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="without curl")
def test_the_calls_of_the_page_are_answered(api: HttpApi, tmp_path: Path) -> None:
    stdout = said(PAGE, api, tmp_path)
    assert "\nPreference-Applied: wait=3\n".lower() in stdout.replace("\r", "").lower()
    documents = [json.loads(line) for line in stdout.splitlines() if line.startswith("{")]
    assert [one.get("code") for one in documents] == [None] * len(documents)
    short, staged, _, accepted, partial, awaited, ended, first, second, put, got, history = documents
    assert short["questions"][0]["hits"][0]["document_id"] == "repairs"
    assert (bool(staged["stages"]), "stages" in short) == (True, False)
    assert accepted["status"] in ("accepted", "running")
    assert set(partial["coverage"].values()) <= {"ok", "running"}
    assert awaited["questions"][0]["hits"][0]["document_id"] == "deposit"
    assert ended == awaited
    assert first == second
    assert put == got == history["changes"][0]
    stages = re.findall(r"^event: (\w+)$", stdout, re.MULTILINE)
    assert (stages[0], stages[-1]) == ("accepted", "ended")


@pytest.mark.skipif(shutil.which("curl") is None, reason="without curl")
def test_the_calls_of_the_page_on_jobs_and_documents_are_answered(
    api: HttpApi, pipeline: RunningPipeline, tmp_path: Path
) -> None:
    stdout = said(JOBS_PAGE, api, tmp_path)
    documents = [json.loads(line) for line in stdout.splitlines() if line.startswith("{")]
    assert [one["code"] for one in documents if "code" in one] == ["conflict"]
    assert [one for one in documents if one.keys() == {"lines", "next", "is_ended"}]
    assert documents[-1]["is_ready"]
