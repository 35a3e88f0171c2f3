"""Flower on a running pipeline, over HTTP: `/task/<request id>` is the request, with its branches as children."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from ast import literal_eval
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pytest
import yaml

from cli.local.servers import (
    FLOWER,
    PREFIX,
    VARIABLE,
    flower_address,
    flower_child,
    flower_page,
    with_servers,
)
from tests.support.faults.moments import join_without_one_branch
from tests.support.pipelines import bulk
from tests.support.pipelines.pipeline import PYTHONPATH, ROOT, RunningPipeline
from tests.support.servers.redis_server import free_port
from tests.support.waiting import until

LOGIN = "watcher:secret"
QUESTION = "Who pays for repairs?"
BRANCHES = {"bm25": "ok", "vector": "ok", "hyde": "ok"}


@dataclass(frozen=True)
class Flower:
    address: str

    def get(self, path: str, *, login: str | None = LOGIN, post: bool = False) -> tuple[int, str]:
        """Returns status and body; the status is 0 while no server answers."""
        request = urllib.request.Request(self.address + path, data=b"" if post else None)
        if login:
            request.add_header("Authorization", "Basic " + base64.b64encode(login.encode()).decode())
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def task_when(self, task_id: str, state: str) -> dict[str, Any]:
        """Waits until the task has this state, since events come after the answer; returns Flower's fields of it."""

        def task_in_state() -> dict[str, Any]:
            status, body = self.get(f"/api/task/info/{task_id}")
            task: dict[str, Any] = json.loads(body) if status == 200 else {}
            return task if task.get("state") == state else {}

        return until(task_in_state)

    def counts(self) -> dict[str, Counter[str]]:
        """The events of each worker, by which Flower's page of workers counts tasks."""
        listed = json.loads(self.get("/workers?json=1")[1])["data"]
        return {
            one["hostname"]: Counter({name: one[name] for name in one if name.startswith("task-")})
            for one in listed
        }


@contextmanager
def started(pipeline: RunningPipeline, **more: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Yields the port and the process, as `chorale up` starts it."""
    port = free_port()
    variables = {**os.environ, **pipeline.environment, "PYTHONPATH": PYTHONPATH, VARIABLE: LOGIN, **more}
    process = subprocess.Popen(
        flower_child(pipeline.home, port, {}).argv,
        env=variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield port, process
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def flower(pipeline: RunningPipeline) -> Iterator[Flower]:
    with started(pipeline) as (port, process):
        client = Flower(f"http://127.0.0.1:{port}")
        # All workers and the sweeper.
        count = len(pipeline.processes)
        until(lambda: process.poll() is None and client.get("/workers?json=1")[1].count("@") >= count, 60)
        yield client


def test_links_and_health_checks_follow_the_prefix(
    pipeline: RunningPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PREFIX, "/shop/flower")
    health = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["flower"]["healthcheck"]
    with started(pipeline, **{PREFIX: "/shop/flower"}) as (port, _):
        heartbeats = with_servers(lambda names: {}, None, flower_address(port))
        until(lambda: heartbeats([FLOWER]).get(FLOWER), 60)

        page = flower_page(port).removeprefix(f"http://127.0.0.1:{port}")
        assert page.startswith("/shop/flower/tasks?")
        assert Flower(f"http://127.0.0.1:{port}").get(page)[0] == 200
        program = health["test"][-1].replace(":5555", f":{port}")
        subprocess.run([sys.executable, "-c", program], check=True)


def test_a_flower_that_does_not_listen_yet_has_no_heartbeat() -> None:
    assert with_servers(lambda names: {}, None, flower_address(free_port()))([FLOWER]) == {}


def value_of(page: str, field: str) -> str:
    """Returns the cell beside `field` on a task's page, or '' if there is no such cell."""
    match = re.search(rf"<dt>{field}</dt>\s*<dd[^>]*>(.*?)</dd>", page, re.DOTALL)
    return match.group(1) if match else ""


def tasks_in(cell: str) -> list[str]:
    """Returns the ids of the tasks that a cell links to."""
    return [unquote(id_) for id_ in re.findall(r'href="/task/([^"]+)"', cell)]


def result_of(task: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = literal_eval(task["result"])
    return result


@pytest.fixture
def no_hyde(pipeline: RunningPipeline) -> Iterator[None]:
    """The worker of `hyde` takes nothing."""
    pipeline.pause("chorale.hyde")
    yield
    pipeline.resume("chorale.hyde")


@pytest.fixture
def no_bulk(pipeline: RunningPipeline) -> Iterator[None]:
    """The worker of jobs answers no line."""
    pipeline.pause("chorale.bulk")
    yield
    pipeline.resume("chorale.bulk")


def test_flower_shows_a_request_as_one_task_with_its_branches_as_children(
    flower: Flower, pipeline: RunningPipeline
) -> None:
    answer = pipeline.client().retrieve(QUESTION, cache="bypass", timeout_s=30)
    task = flower.task_when(answer.request_id, "SUCCESS")
    assert task["name"] == "chorale.retrieve"
    assert literal_eval(task["kwargs"]) == {"namespace": "default", "timeout_s": 30.0, "questions": 1}
    result = result_of(task)
    assert result.pop("ms") == round(task["runtime"] * 1000)
    assert result == {
        "status": "complete",
        "namespace": "default",
        "hits": 5,
        "branches": BRANCHES,
        "by": "fusion",
    }
    assert list(result)[:2] == ["status", "namespace"]
    _, page = flower.get(f"/task/{answer.request_id}")
    names = []
    for child in tasks_in(value_of(page, "Children")):
        _, branch = flower.get(f"/task/{child}")
        assert tasks_in(value_of(branch, "Parent id")) == [answer.request_id]
        assert tasks_in(value_of(branch, "Root id")) == [answer.request_id]
        names += re.findall(r"chorale\.search\.\w+(?=</a>)", value_of(branch, "Name"))
    assert sorted(names) == ["chorale.search.bm25", "chorale.search.hyde", "chorale.search.vector"]
    # No task of its own for the fusion, and none for the message that asked to plan.
    listed = json.loads(flower.get("/api/tasks")[1])
    assert {task["name"] for task in listed.values()} == {"chorale.retrieve", *names}
    assert "repairs" not in str(listed)  # no text of a question


def test_a_wrong_login_is_refused_and_metrics_need_none(flower: Flower) -> None:
    assert [flower.get("/api/workers", login=login)[0] for login in ("watcher:wrong", LOGIN)] == [401, 200]
    assert flower.get("/metrics", login=None)[0] == 200


@pytest.mark.usefixtures("no_hyde")
def test_a_degraded_request_has_a_state_and_a_metric_of_its_own(
    flower: Flower, pipeline: RunningPipeline
) -> None:
    client = pipeline.client()
    request_id = client.send(QUESTION, cache="bypass", timeout_s=20)
    join_without_one_branch(pipeline, request_id)
    answer = client.answer(request_id, wait_s=20)
    task = flower.task_when(answer.request_id, "DEGRADED")
    result = result_of(task)
    assert result["branches"] == {**BRANCHES, "hyde": "not_started"}
    assert result["degraded"] == ["search.hyde not_started"]
    assert flower.task_when(f"{answer.request_id}:hyde", "FAILURE")["exception"] == "not_started"
    _, listed = flower.get("/api/tasks?state=DEGRADED")
    assert answer.request_id in json.loads(listed)
    _, metrics = flower.get("/metrics")
    assert re.search(r'flower_events_total\{task="chorale.retrieve",type="task-degraded",', metrics)


@pytest.mark.usefixtures("no_hyde")
def test_a_request_that_runs_is_shown_and_a_revoke_cancels_it(
    flower: Flower, pipeline: RunningPipeline
) -> None:
    client = pipeline.client()
    request_id = client.send(QUESTION, cache="bypass", timeout_s=60)
    for branch, state in {"bm25": "SUCCESS", "vector": "SUCCESS", "hyde": "PENDING"}.items():
        flower.task_when(f"{request_id}:{branch}", state)
    task = flower.task_when(request_id, "STARTED")
    assert task["name"] == "chorale.retrieve"
    assert result_of(task) == {
        "status": "running",
        "namespace": "default",
        "branches": {**BRANCHES, "hyde": "not_started"},
    }
    children = {f"{request_id}:{branch}" for branch in BRANCHES}
    page = f"/task/{request_id}"
    until(lambda: set(tasks_in(value_of(flower.get(page)[1], "Children"))) == children)
    # What the button on the page of a task that has started sends.
    assert flower.get(f"/api/task/revoke/{request_id}?terminate=true", post=True)[0] == 200
    assert client.answer(request_id, wait_s=20).status == "cancelled"
    assert result_of(flower.task_when(request_id, "REVOKED"))["status"] == "cancelled"


def test_the_workers_that_answered_branches_count_them(flower: Flower, pipeline: RunningPipeline) -> None:
    before = flower.counts()
    answer = pipeline.client().retrieve(QUESTION, cache="bypass", timeout_s=30)
    workers = {flower.task_when(f"{answer.request_id}:{branch}", "SUCCESS")["worker"] for branch in BRANCHES}
    assert not any(name.startswith("sweeper") for name in workers)
    after = flower.counts()
    for event in ("task-received", "task-succeeded"):
        # The events of an earlier test may come late.
        assert sum(after[name][event] - before[name][event] for name in workers) >= len(BRANCHES)


@pytest.mark.usefixtures("no_bulk")
def test_a_job_is_one_task_in_progress_and_a_revoke_cancels_it(
    flower: Flower, pipeline: RunningPipeline
) -> None:
    jobs = pipeline.resources.jobs
    job_id = bulk.submit(pipeline, bulk.lines(130), name="nightly")
    jobs.pause(job_id)
    task = flower.task_when(job_id, "PROGRESS")
    assert task["name"] == "chorale.job"
    about = {"name": "nightly", "namespace": "default", "tenant": "default", "lines": 130}
    assert literal_eval(task["kwargs"]) == about
    assert re.fullmatch(r"(queued|running|paused): 0/130 done", task["result"])
    status, _ = flower.get(f"/api/task/revoke/{job_id}", post=True)
    assert status == 200
    ended = flower.task_when(job_id, "FAILURE")
    assert ended["exception"] == "cancelled: 0/130 done (130 cancelled)"
    assert jobs.get(job_id).outcome == "cancelled"
