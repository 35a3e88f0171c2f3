"""The client beside the oldest and the newest Celery, redis-py and pydantic that it allows, against a running pipeline.

The service has its own versions; an application has those of its other needs.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.support.pipelines.celery_application import CeleryApplication
from tests.support.pipelines.pipeline import ROOT, RunningPipeline
from tests.support.waiting import until
from tests.support.wheels import installed, run

pytestmark = pytest.mark.slow  # new environments with packages of the index

QUESTION = "Who pays for repairs?"
REQUEST = {"questions": [QUESTION], "namespace": "docs", "timeout_s": 30}


def lowest() -> list[str]:
    """What the client requires, each at the lowest version that its `pyproject.toml` allows."""
    project = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    floors = {
        requirement.name: next(one.version for one in requirement.specifier if one.operator == ">=")
        for requirement in map(Requirement, project["dependencies"])
    }
    assert set(floors) == {"celery", "redis", "pydantic", "packaging"}
    return [f"{name}=={floor}" for name, floor in floors.items()]


APPLICATIONS: dict[str, tuple[str, tuple[str, ...], dict[str, str]]] = {
    # The version of Python, the packages that pip installs beside the client, and the versions that pip must choose.
    "the lowest versions": ("3.11", (*lowest(), "kombu==5.3.*"), {"celery": "5.3.", "redis": "5.0."}),
    "Celery 5.4": (
        "3.12",
        ("celery[redis]==5.4.*", "kombu==5.4.*", "redis==5.2.*"),
        {"celery": "5.4.", "redis": "5.2."},
    ),
    "Celery 5.5": ("3.12", ("celery[redis]==5.5.*",), {"celery": "5.5.", "redis": "5.2."}),
    "Celery 5.6": ("3.13", ("celery==5.6.*", "redis==7.*"), {"celery": "5.6.", "redis": "7."}),
    "Celery 5.7": ("3.14", ("celery[redis]==5.7.*",), {"celery": "5.7.", "redis": "8."}),
}
LOWEST, *BETWEEN, NEWEST = APPLICATIONS
VERSIONS = """
import json
from importlib.metadata import version
print(json.dumps({name: version(name) for name in ("celery", "redis")}))
"""
CLIENT = f"""
import asyncio, json, os, warnings
warnings.simplefilter("error")
from chorale_client import AsyncChorale, Chorale

async def status_on_a_loop():
    async with AsyncChorale(url) as chorale:
        return (await chorale.retrieve({QUESTION!r}, namespace="docs", timeout_s=30)).status

url = os.environ["REDIS_URL"]
chorale = Chorale(url)
on_end = {{"task": "shop.ended", "queue": "shop"}}
answer = chorale.retrieve({QUESTION!r}, namespace="docs", timeout_s=30, on_end=on_end)
ticket = chorale.upsert("versions", [{{"id": "tea", "title": "Tea", "text": "Green tea."}}])
print(json.dumps({{
    "request": answer.status,
    "on a loop": asyncio.run(status_on_a_loop()),
    "events": [event.stage for event in chorale.submit("bread", namespace="docs", timeout_s=30).events()][-1],
    "document": chorale.wait_visible(ticket).is_whole,
    "job": chorale.jobs.submit([{QUESTION!r}], namespace="docs").wait(60).state,
    "on_end": answer.request_id,
}}))
chorale.close()
"""
WAIT_S = 25
"""Three waits end before the limit of the test, so that a failure names the one that got no answer."""
PLAIN = f"""
from application import app, keep
from celery import chain, group
search = app.signature("chorale.retrieve", args=[{REQUEST!r}])
linked = app.send_task("chorale.retrieve", args=[{REQUEST!r}], link=keep.s())
found = {{
    "get": app.send_task("chorale.retrieve", args=[{REQUEST!r}]).get(timeout={WAIT_S})["status"],
    "group": [answer["status"] for answer in group([search, search.clone()])().get(timeout={WAIT_S})],
    "chain": chain(search.clone(), keep.s().set(queue="shop"), length)().get(timeout={WAIT_S}) > 0,
    "linked": linked.id,
}}
"""


COLLECTED = f"""
import faulthandler, gc
from application import app
from redis.connection import Connection
faulthandler.dump_traceback_later({WAIT_S}, exit=True)
gc.disable()
cycle = [app.send_task("chorale.retrieve", args=[{REQUEST!r}])]
cycle.append(cycle)
cycle[0].get(timeout={WAIT_S})
del cycle
send_command, collected = Connection.send_command, 0

def collect_and_send(self, *words, **options):
    global collected
    if words[0] == "SUBSCRIBE":
        collected += gc.collect()
    send_command(self, *words, **options)

Connection.send_command = collect_and_send
status = app.send_task("chorale.retrieve", args=[{REQUEST!r}]).get(timeout={WAIT_S})["status"]
print(status, collected > 0)
"""
"""Celery unsubscribes from a result that the garbage collector takes, here while redis-py subscribes to another one.  Releases of redis-py
whose lock is not reentrant (5.3 to 6.3) would wait for themselves."""


class Application:
    """A user's application with a worker, in an environment of its own."""

    def __init__(self, python: Path, pipeline: RunningPipeline) -> None:
        address = {"BROKER_URL": pipeline.server.tcp_url, "REDIS_URL": pipeline.server.tcp_url}
        self._redis = pipeline.redis
        self._address = address
        self._python = python
        self.celery = CeleryApplication(address, python=python)

    def printed(self, program: str) -> Any:
        return json.loads(run(self._python, "-I", "-c", program, cwd=self._python.parent, **self._address))

    def has_got(self, task: str, request_id: str) -> bool:
        """Whether the worker has run the task once for this request."""
        runs: Any = until(lambda: self._runs(task, request_id), 60)
        return len(runs) == 1

    def _runs(self, task: str, request_id: str) -> list[bytes]:
        runs: Any = self._redis.lrange(f"got:{task}", 0, -1)
        return [one for one in runs if request_id.encode() in one]


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def answers_of_plain_celery(application: Application) -> None:
    outcome: Any = application.celery.run(PLAIN)
    assert application.has_got("keep", outcome.pop("linked"))
    assert outcome == {"get": "complete", "group": ["complete"] * 2, "chain": True}
    assert application.celery.printed(COLLECTED) == "complete True\n"


@pytest.mark.parametrize(
    "name", [LOWEST, *(pytest.param(name, marks=pytest.mark.long) for name in BETWEEN), NEWEST]
)
def test_an_application_asks_with_and_without_the_client(
    name: str, client_wheel: Path, tmp_path: Path, pipeline: RunningPipeline, opened: ExitStack
) -> None:
    version, beside, expected = APPLICATIONS[name]
    python = installed(tmp_path / "venv", client_wheel, *beside, python=version)
    application = Application(python, pipeline)
    opened.enter_context(application.celery)
    versions = application.printed(VERSIONS)
    assert [versions[package][: len(start)] for package, start in expected.items()] == [*expected.values()]

    outcome = application.printed(CLIENT)

    assert application.has_got("ended", outcome.pop("on_end"))
    assert outcome == {
        "request": "complete",
        "on a loop": "complete",
        "events": "ended",
        "document": True,
        "job": "ended",
    }
    answers_of_plain_celery(application)


def test_plain_celery_5_2_asks_too(tmp_path: Path, pipeline: RunningPipeline, opened: ExitStack) -> None:
    python = installed(tmp_path / "venv", "celery[redis]==5.2.*", "kombu==5.2.*", python="3.11")
    application = Application(python, pipeline)
    opened.enter_context(application.celery)
    answers_of_plain_celery(application)
