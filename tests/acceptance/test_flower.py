"""Flower on a running pipeline: `/task/<request id>` is the fusion, with its branches as children."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote

import pytest

from tests.support.pipelines.pipeline import ROOT, RunningPipeline
from tests.support.servers.redis_server import free_port

LOGIN = "watcher:secret"
LIMIT_S = 60.0


@dataclass(frozen=True)
class Flower:
    address: str

    def get(self, path: str, *, login: str | None = LOGIN) -> tuple[int, str]:
        """Returns status and body; the status is 0 while no server answers."""
        request = urllib.request.Request(self.address + path)
        if login:
            request.add_header("Authorization", "Basic " + base64.b64encode(login.encode()).decode())
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""


@pytest.fixture(scope="module")
def flower(pipeline: RunningPipeline) -> Iterator[Flower]:
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        "tasks.app",
        "flower",
        "--address=127.0.0.1",
        f"--port={port}",
    ]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **pipeline.environment, "PYTHONPATH": str(ROOT), "FLOWER_BASIC_AUTH": LOGIN},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        found = Flower(f"http://127.0.0.1:{port}")
        until = time.monotonic() + LIMIT_S
        # Flower keeps only events of workers that it has seen, so the tests wait until it has seen all workers.
        while found.get("/workers?json=1")[1].count("@") < len(pipeline.resources.pipeline.queues):
            assert process.poll() is None, "Flower ended"
            assert time.monotonic() < until, found.get("/workers?json=1")
            time.sleep(0.1)
        yield found
    finally:
        process.kill()
        process.wait()


def value_of(page: str, field: str) -> str:
    """Returns the cell beside `field` on a task's page, or '' if there is no such cell."""
    found = re.search(rf"<dt>{field}</dt>\s*<dd[^>]*>(.*?)</dd>", page, re.DOTALL)
    return found.group(1) if found else ""


def tasks_in(cell: str) -> list[str]:
    """Returns the ids of the tasks that a cell links to."""
    return [unquote(found) for found in re.findall(r'href="/task/([^"]+)"', cell)]


def page_when(flower: Flower, task_id: str, field: str, count: int) -> str:
    """Waits until a task's page says SUCCESS and its `field` links to so many tasks (events come after the answer);
    returns the page."""
    until = time.monotonic() + LIMIT_S
    while True:
        status, page = flower.get(f"/task/{task_id}")
        has_ended = "SUCCESS" in value_of(page, "Status")
        if status == 200 and has_ended and len(tasks_in(value_of(page, field))) == count:
            return page
        assert time.monotonic() < until, (status, value_of(page, field))
        time.sleep(0.1)


def test_flower_shows_a_request_as_its_fusion_with_the_branches_as_children(
    flower: Flower, pipeline: RunningPipeline
) -> None:
    answer = pipeline.client().retrieve("Who pays for repairs?", cache="bypass", timeout_s=30)
    assert answer.status == "complete"
    page = page_when(flower, answer.request_id, "Children", 3)
    assert "chorale.fuse" in value_of(page, "Name")
    names = []
    for child in tasks_in(value_of(page, "Children")):
        branch = page_when(flower, child, "Parent id", 1)
        assert tasks_in(value_of(branch, "Parent id")) == [answer.request_id]
        assert tasks_in(value_of(branch, "Root id")) == [answer.request_id]
        names += re.findall(r"chorale\.search\.\w+(?=</a>)", value_of(branch, "Name"))
    assert sorted(names) == ["chorale.search.bm25", "chorale.search.hyde", "chorale.search.vector"]


def test_flower_asks_for_the_login(flower: Flower) -> None:
    assert flower.get("/workers", login=None)[0] == 401
    assert flower.get("/workers", login="watcher:wrong")[0] == 401
    assert flower.get("/workers")[0] == 200
