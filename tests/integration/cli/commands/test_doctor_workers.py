"""`chorale doctor` and workers of another version, with other settings, or started with Celery's own options."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery.concurrency import prefork, solo
from redis import Redis

from cli.doctor.workers import CELERY_OPTIONS
from cli.installation import Installation
from config.settings import Settings
from monitoring.checks import CHECKS
from tasks.celery_internals.visibility import BINDINGS
from tasks.registration import make_app
from tasks.wiring.resources import Resources
from tasks.worker.heartbeat import self_report
from tests.integration.cli.commands.findings import findings, the_finding
from tests.integration.cli.commands.printed import complaint
from tests.support.command_line import in_process
from tests.support.servers.redis_server import RedisServer

QUEUES = ("chorale.index",)
ROOT = Path(__file__).parents[4]
REPORTS = ("package versions", "same settings", "same pipeline", "same folder", "celery options")

Beats = Callable[..., None]


@pytest.fixture
def here(redis_server: RedisServer, redis_client: Redis, tmp_path: Path) -> Installation:
    return Installation(Settings(home=tmp_path), redis_server.url)


@pytest.fixture
def beats(here: Installation, redis_client: Redis) -> Beats:
    """Writes the heartbeat of an index worker of this version, with changes in its report."""
    app = make_app(here.resources, queues=QUEUES)
    report = self_report(
        here.resources, worker=SimpleNamespace(app=app, pool_cls=solo.TaskPool, prefetch_multiplier=1)
    )

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


def test_each_wrong_option_of_celery_is_found(here: Installation, beats: Beats) -> None:
    wrong = {"pool": "prefork", "prefetch": 4, "disable_prefetch": True}
    assert wrong.keys() == CELERY_OPTIONS.keys()
    for name, value in wrong.items():
        beats(worker_options={name: value})
        finding = the_finding(here, "celery options")
        assert finding.what.startswith(f"index runs with {name} = {value!r} instead of ")
        assert finding.mend == "start it as `chorale worker index`"


def test_a_worker_reports_the_options_that_it_runs_with(here: Installation) -> None:
    app = make_app(here.resources, queues=QUEUES)
    app.conf.worker_disable_prefetch = True
    worker = SimpleNamespace(app=app, pool_cls=prefork.TaskPool, prefetch_multiplier=4)
    options = self_report(here.resources, worker=worker)["worker_options"]
    assert options == {"pool": "prefork", "prefetch": 4, "disable_prefetch": True, "task_events": False}


@pytest.mark.parametrize(
    ("check", "changes", "expected"),
    [
        ("package versions", {"versions": {"celery": "5.6.3"}}, "index runs on celery 5.6.3 (here {celery})"),
        (
            "same settings",
            {"settings": {"cache_ttl_s": 1.0}},
            "index has CHORALE_CACHE_TTL_S=1.0 (here 3600.0)",
        ),
        ("same pipeline", {"pipeline": "other"}, "index have another pipeline file than this program"),
        ("same model", {"models": {"embedder": "other weights"}}, "index has other weights than "),
        ("same folder", {"home": "/elsewhere"}, "index works on /elsewhere, and this program on {home}"),
    ],
)
def test_other_versions_settings_declarations_weights_and_folders_are_found(
    here: Installation, beats: Beats, monkeypatch: pytest.MonkeyPatch, check: str, changes: Any, expected: str
) -> None:
    monkeypatch.setattr(Resources, "fingerprints", {"embedder": "our weights"})
    beats(**changes)
    ours = {"celery": version("celery"), "home": here.settings.home}
    assert the_finding(here, check).what.startswith(expected.format(**ours))
    if check == "same folder":
        beats(**changes, host="another host")
        assert findings(here, check) == []
        beats(**changes)
        # Elasticsearch, Weaviate and PostgreSQL keep everything: no folder is shared.
        servers = here.settings.model_copy(
            update={
                "pipeline_file": ROOT / "config" / "clustered.toml",
                "audit_url": "postgresql+psycopg://nowhere/chorale",
            }
        )
        assert findings(replace(here, settings=servers), check) == []


def test_a_binding_that_an_ended_flower_has_left_changes_nothing(
    here: Installation, beats: Beats, redis_client: Redis
) -> None:
    beats(worker_options={"task_events": False})
    names = [*REPORTS, *CHECKS, "redis keys", "chords"]
    before = findings(here, *names)
    redis_client.sadd(f"{BINDINGS}.celeryev", "\x06\x16#\x06\x16celeryev.5f0c")
    assert findings(here, *names) == before


@pytest.mark.parametrize(
    "words",
    [
        ("index", "{file}", "-n", "law"),
        ("namespaces", "create", "law"),
        ("rules", "history", "law"),
        ("jobs", "submit", "{file}"),
        ("keys", "create", "-n", "law", "--scope", "admin"),
        ("up",),
    ],
)
def test_a_command_with_the_redis_of_another_home_says_so_and_writes_nothing(
    here: Installation, beats: Beats, tmp_path: Path, words: tuple[str, ...]
) -> None:
    beats()
    own, file = tmp_path / "own", tmp_path / "questions.jsonl"
    file.write_text('{"text": "bread"}\n')
    around = {"CHORALE_HOME": str(own), "CHORALE_REDIS_URL": here.redis_url or ""}
    said = complaint(in_process(*(word.format(file=file) for word in words), **around))
    assert f"the Redis of index, which works on {tmp_path}, and this command on {own}: " in said
    assert f"set CHORALE_HOME={tmp_path}, or unset CHORALE_REDIS_URL" in said
    assert not own.exists()
    linked = tmp_path / "linked"
    linked.symlink_to(tmp_path)
    same = in_process("namespaces", "list", **{**around, "CHORALE_HOME": str(linked)})
    assert same.returncode == 0, same.stderr
