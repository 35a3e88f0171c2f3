"""The Celery guide with the logins of Redis: an application asks as `caller`, and its own worker runs as `application`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.code_blocks import code_blocks
from tests.support.pipelines.celery_application import FOLDER
from tests.support.pipelines.pipeline import CORPUS
from tests.support.servers.redis_acl import RolesPipeline, SecuredRedis, needs_tls
from tests.support.waiting import until

PAGE = [block for block in code_blocks("python") if block.page == "docs/guides/celery.md"]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def secured() -> Iterator[SecuredRedis]:
    needs_tls()
    with SecuredRedis(on_end_queues="shop,reports") as server:
        yield server


@pytest.fixture(scope="module")
def running(secured: SecuredRedis) -> Iterator[RolesPipeline]:
    environment = {"CHORALE_SWEEPER_THREADS": "false", "CHORALE_ON_END_QUEUES": "shop,reports"}
    with RolesPipeline(secured, sweeper=True, environment=environment) as running:
        running.index(CORPUS, namespace="docs")
        yield running


def in_celery_s_spelling(url: str) -> str:
    return url.replace("?", "?ssl_cert_reqs=required&")


def variables(secured: SecuredRedis, role: str) -> dict[str, str]:
    url = in_celery_s_spelling(secured.url_of(role))
    return {**os.environ, "CHORALE_REDIS_URL": url, "BROKER_URL": url, "REDIS_URL": url}


@contextmanager
def application_worker(secured: SecuredRedis, folder: Path) -> Iterator[Path]:
    """The worker of the guide's application, with Celery's own settings; yields its log."""
    logged = folder / "worker.txt"
    arguments = ("worker", "-Q", "shop,reports", "-l", "INFO", "-c", "1", "--task-events")
    with logged.open("w") as out:
        worker = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "application", *arguments],
            cwd=FOLDER,
            env={**variables(secured, "application"), "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        until(lambda: " ready." in logged.read_text() or worker.poll() is not None, 60)
        yield logged
    finally:
        worker.terminate()
        worker.wait(60)


@pytest.fixture
def logged(running: RolesPipeline, secured: SecuredRedis, tmp_path: Path) -> Iterator[Path]:
    secured.denied()
    with application_worker(secured, tmp_path) as logged:
        yield logged
    assert secured.denied() == []
    assert "ERROR" not in logged.read_text(), logged.read_text()


def run(secured: SecuredRedis, code: str, *, role: str = "caller") -> str:
    """What a Python program of the application prints, which logs in as `role`."""
    program = subprocess.run(
        [sys.executable, "-c", code],
        env=variables(secured, role),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert program.returncode == 0, program.stdout + program.stderr
    return program.stdout


def test_every_block_of_the_guide_runs(secured: SecuredRedis, logged: Path) -> None:
    printed = run(secured, "\n".join(block.code for block in PAGE).replace("timeout=3", "timeout=30"))
    assert printed.splitlines()[0] == "1 Repairs"
    for task in ("ended", "keep", "ask"):
        until(lambda task=task: f"Task shop.{task}" in logged.read_text(), 60)  # type: ignore[misc]
    # `ended` and `keep` after the first request, `keep` in the chain, `ask`, and `keep` after it.
    until(lambda: logged.read_text().count("succeeded") >= 5, 60)


ASKING = """
import sys
sys.path.insert(0, {folder!r})
from application import app, ask, ended, keep
from celery import chord, group, signature
from celery.result import GroupResult

request = {{"questions": ["Who pays for repairs?"], "namespace": "docs", "timeout_s": 30}}
answer = {{"request_id": "a", "status": "complete", "questions": [{{"hits": []}}]}}
"""
CALLER = """
questions = group(signature("chorale.retrieve", args=[request], app=app) for _ in range(2))
group_result = questions.apply_async()
print([one["status"] for one in group_result.get(timeout=60)])
print(sorted(answer["status"] for _, answer in group_result.iter_native()))
print([answer["status"] for one in group_result.results for _, answer in one.collect()])
group_result.save()
print(len(GroupResult.restore(group_result.id, app=app).join(timeout=60)))
group_result.delete()
again = app.AsyncResult(group_result.results[0].id)
print(again.state, again.ready())
group_result.forget()
print(app.AsyncResult(group_result.results[0].id).state)
print(keep.apply_async([answer], countdown=1).get(timeout=60))
print(group(keep.s(answer), keep.s(answer))().get(timeout=60))
"""


def test_a_caller_has_every_way_of_celery_to_wait_for_several_answers(
    secured: SecuredRedis, logged: Path
) -> None:
    printed = run(secured, ASKING.format(folder=str(FOLDER)) + CALLER)
    line = "a complete: nothing"
    assert printed.splitlines() == [
        "['complete', 'complete']",
        "['SUCCESS', 'SUCCESS']",
        "['complete', 'complete']",
        "2",
        "SUCCESS True",
        "PENDING",
        line,
        str([line, line]),
    ]


APPLICATION = """
print(app.send_task("chorale.retrieve", args=[request]).get(timeout=60)["status"])
print(chord([keep.s(answer), keep.s(answer)])(signature("shop.keep", args=[answer], immutable=True)).get(timeout=60))
print([reply["ok"] for found in app.control.ping(timeout=5, limit=1) for reply in found.values()])
"""


def test_an_application_may_also_ask_and_use_chords_and_commands_with_its_workers_login(
    secured: SecuredRedis, logged: Path
) -> None:
    code = ASKING.format(folder=str(FOLDER)) + APPLICATION
    printed = run(secured, code, role="application")
    assert printed.splitlines() == ["complete", "a complete: nothing", "['pong']"]


def test_a_worker_puts_back_what_a_killed_worker_of_the_application_had_taken(
    secured: SecuredRedis, tmp_path: Path
) -> None:
    secured.denied()
    run(secured, ASKING.format(folder=str(FOLDER)) + "keep.delay(answer)")
    with secured.client() as admin:
        message = json.loads(admin.rpop("shop"))
        admin.hset("unacked", "tag", json.dumps([message, "shop", "shop"]))
        admin.zadd("unacked_index", {"tag": 1})
        with application_worker(secured, tmp_path) as logged:
            until(lambda: "a complete: nothing" in logged.read_text(), 60)
            until(lambda: not admin.hlen("unacked"))
    assert secured.denied() == []
