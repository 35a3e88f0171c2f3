"""`chorale doctor` and workers of another version, with other settings, or started with Celery's own options."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery.concurrency.solo import TaskPool
from redis import Redis

from assembly.resources import Resources
from cli.doctor.celery_settings import RULES
from cli.installation import Installation
from config.settings import Settings
from tasks.registration import make_app
from tasks.worker.self_report import self_report
from tests.integration.cli.commands.findings import findings, the_finding
from tests.support.pipelines.pipeline import ROOT, RunningPipeline
from tests.support.servers.redis_server import RedisServer

WRONG = {
    "result_backend": "redis", "pool": "prefork", "task_acks_late": False, "ack_emulation": False,
    "visibility_timeout": 3600, "unacked_restore_interval": 10, "unacked_restore_throttle": 10,
    "priority_steps": [0, 3, 6, 9], "socket_timeout": None, "prefetch": 4, "worker_disable_prefetch": True,
    "accept_content": ["json", "yaml"], "task_serializer": "yaml", "result_serializer": "yaml",
    "task_ignore_result": False, "result_backend_thread_safe": False, "redis_socket_timeout": 120,
    "worker_proc_alive_timeout": 4, "task_create_missing_queues": True, "worker_deduplicate_successful_tasks": True,
}  # fmt: skip
QUEUES = ("chorale.index",)
REPORTS = ("package versions", "same settings", "same pipeline", "same folder", "celery settings")

Beats = Callable[..., None]


@pytest.fixture
def here(redis_server: RedisServer, redis_client: Redis, tmp_path: Path) -> Installation:
    return Installation(Settings(home=tmp_path), redis_server.url)


@pytest.fixture
def beats(here: Installation, redis_client: Redis) -> Beats:
    """Writes the heartbeat of an index worker of this version, with changes in its report."""
    worker = SimpleNamespace(
        app=make_app(here.resources, queues=QUEUES), pool_cls=TaskPool, prefetch_multiplier=1
    )
    report = self_report(here.resources, worker=worker)

    def beat(**changes: Any) -> None:
        about = report | {
            name: report[name] | change if isinstance(change, dict) and report[name] else change
            for name, change in changes.items()
        }
        seconds, _ = redis_client.time()
        fields = {"at": seconds * 1000, "ready": True, "queues": QUEUES, "wire": 1, "about": about}
        redis_client.set("chorale:heartbeat:index", json.dumps(fields))

    return beat


def test_a_worker_of_this_version_gives_no_finding(here: Installation, beats: Beats) -> None:
    beats()
    assert findings(here, *REPORTS) == []


def test_each_wrong_setting_of_celery_is_found(here: Installation, beats: Beats) -> None:
    assert {rule.setting for rule in RULES} == WRONG.keys()
    for setting, value in WRONG.items():
        beats(celery={setting: value})
        finding = the_finding(here, "celery settings")
        assert finding.what.startswith(f"index has {setting} = {value!r} instead of ")
        assert finding.mend == "start it as `chorale worker index` of this version"


def test_other_versions_settings_declarations_weights_and_folders_are_found(
    here: Installation, beats: Beats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Resources, "fingerprints", {"embedder": "our weights"})
    ours = f"{here.settings.home}"
    for check, changes, expected in (
        (
            "package versions",
            {"versions": {"celery": "5.6.3"}},
            f"index runs on celery 5.6.3 (here {version('celery')})",
        ),
        (
            "same settings",
            {"settings": {"cache_ttl_s": 1.0}},
            "index has CHORALE_CACHE_TTL_S=1.0 (here 3600.0)",
        ),
        ("same pipeline", {"pipeline": "other"}, "index have another pipeline file than this program"),
        ("same model", {"models": {"embedder": "other weights"}}, "index has other weights than "),
        ("same folder", {"home": "/elsewhere"}, f"index works on /elsewhere, and this program on {ours}"),
    ):
        beats(**changes)
        assert the_finding(here, check).what.startswith(expected)
    beats(home="/elsewhere", host="another host")
    assert findings(here, "same folder") == []


def test_workers_that_send_no_events_while_flower_watches_are_found(here: Installation, beats: Beats) -> None:
    beats(celery={"worker_send_task_events": False})
    assert findings(here, "task events") == []
    app = make_app(here.resources)
    with app.connection_for_read() as connection:
        watching = app.events.Receiver(connection, handlers={}).queue.bind(connection.default_channel)
        watching.declare()
        assert "index send none" in the_finding(here, "task events").what
        # Where the operator has turned the events off, Flower watches only workers and queues.
        off = replace(here, settings=here.settings.model_copy(update={"task_events": False}))
        assert findings(off, "task events") == []
        watching.delete()
    assert findings(here, "task events") == []


OTHER_SETTINGS = """
import config.celery

right = config.celery.celery_settings

def wrong(**given):
    made = right(**given)
    made["broker_transport_options"].update(visibility_timeout=3600, priority_steps=[0, 3, 6, 9])
    return made | {"task_acks_late": False, "worker_prefetch_multiplier": 4}

config.celery.celery_settings = wrong
"""


@pytest.fixture
def odd() -> Iterator[RunningPipeline]:
    """An index worker with other settings of Celery, and a worker that Celery's own command has started."""
    with (
        RedisServer() as server,
        # Not forked, because the preloaded code replaces a function before the product imports it.
        RunningPipeline(server, queues=["chorale.index"], preload=OTHER_SETTINGS, forked=False) as running,
    ):
        command = [sys.executable, "-m", "celery", "-A", "tasks.app", "worker", "-P", "prefork", "-c", "1"]
        command += ["-Q", "chorale.fusion", "-n", "celerys@here", "--without-gossip", "--without-mingle"]
        running.processes["celerys@here"] = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **running.environment, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        running.wait_ready()
        yield running


@pytest.mark.slow
def test_real_workers_report_the_settings_that_they_run_with(odd: RunningPipeline) -> None:
    beside = Installation(Settings(home=odd.home, redis_url=odd.server.url), odd.server.url)
    expected = [
        ("celerys@here", "pool", "prefork"),
        *(
            ("chorale.index", setting, WRONG[setting])
            for setting in ("task_acks_late", "visibility_timeout", "prefetch", "priority_steps")
        ),
    ]
    found = [one.what.partition(" instead of ")[0] for one in findings(beside, "celery settings")]
    assert found == [f"{name} has {setting} = {value!r}" for name, setting, value in expected]
