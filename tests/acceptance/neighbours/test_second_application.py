"""A second Celery application on the Redis of `chorale up` does its own work undisturbed, and asks Chorale at the same time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from celery import Celery
from chorale_client.keys import UNACKED
from kombu import Exchange, Queue
from redis import Redis

from config.home import find_redis_url
from tests.support.command_line import in_process
from tests.support.pipelines.forked_children import running_module
from tests.support.pipelines.pipeline_files import PATIENT
from tests.support.servers.redis_server import free_port
from tests.support.waiting import until

VISIBILITY_TIMEOUT_S, RESTORE_INTERVAL_S = 2, 5
"""Chorale's workers give a message back after this time, and look for such messages at this interval."""
DELAY_S = 15
AT_START = f"import config.celery; config.celery.VISIBILITY_TIMEOUT_S = {VISIBILITY_TIMEOUT_S}\n"
REQUEST = {"questions": ["Who pays for repairs?"], "namespace": "docs"}

pytestmark = pytest.mark.slow


class Shop:
    """Processes of the application in `shop.py`."""

    def __init__(self, folder: Path, redis_url: str) -> None:
        self._folder = folder
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
            "PYTHONPATH": str(Path(__file__).parent),
            "CHORALE_REDIS_URL": redis_url,
            "RAN": str(folder / "ran"),
            "RELEASED": str(folder / "released"),
            "FLOWER_UNAUTHENTICATED_API": "true",
        }
        self.redis_url = redis_url
        self.app = Celery("shop", broker=redis_url, backend=redis_url, set_as_current=False)
        orders = Queue("orders", Exchange("orders", type="topic"), routing_key="order.#")
        self.app.conf.update(task_default_queue="shop", task_queues=[Queue("shop"), orders])

    def start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """`celery -A shop ARGUMENT…`; its output goes to the log with this name."""
        with self.log(name).open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", "shop", *arguments],
                cwd=self._folder,
                env=self._environment,
                stdout=log,
                stderr=log,
            )

    def log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def start_worker(self) -> subprocess.Popen[bytes]:
        """A worker with Celery's own defaults, and events, as Flower needs them; returns when it takes tasks."""
        count = self.said("worker", " ready.")
        worker = self.start("worker", "worker", "--concurrency=4", "--loglevel=INFO", "--task-events")
        until(lambda: self.said("worker", " ready.") > count, 60)
        return worker

    def said(self, name: str, words: str) -> int:
        log = self.log(name)
        return log.read_text().count(words) if log.exists() else 0

    def ran(self) -> Counter[str]:
        ran = self._folder / "ran"
        return Counter(ran.read_text().splitlines()) if ran.exists() else Counter()

    def release_reports(self) -> None:
        (self._folder / "released").touch()

    def send(self, task: str, name: str, **options: Any) -> None:
        self.app.send_task(f"shop.{task}", args=[name], **options)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """The home of a running `chorale up --flower` with the namespace `docs`."""
    (tmp_path / "pipeline.toml").write_text(PATIENT)
    (tmp_path / "sitecustomize.py").write_text(AT_START)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "repairs.md").write_text("The landlord pays for repairs.\n")
    home = tmp_path / "home"
    variables = {
        "CHORALE_HOME": str(home),
        "CHORALE_PIPELINE_FILE": str(tmp_path / "pipeline.toml"),
        "CHORALE_ON_END_QUEUES": "shop",
        "PYTHONPATH": str(tmp_path),
    }
    arguments = ("up", "--json", "--flower", f"--flower-port={free_port()}")
    with running_module("cli", *arguments, environment={**os.environ, **variables}) as (process, output):
        for line in output:
            if json.loads(line)["line"].startswith("ready: "):
                break
        indexed = in_process("index", str(tmp_path / "docs"), "--namespace", "docs", **variables)
        assert indexed.returncode == 0, indexed.stderr
        yield home
        process.terminate()
        process.wait(60)


def test_each_task_of_the_application_runs_once_while_both_work(home: Path, tmp_path: Path) -> None:
    redis_url = find_redis_url(home)
    assert redis_url is not None
    shop, port = Shop(tmp_path, redis_url), free_port()
    with ExitStack() as ended:

        def start(process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
            ended.callback(process.wait)
            ended.callback(process.kill)
            return process

        redis = ended.enter_context(Redis.from_url(redis_url))

        def wait_longer_than_chorale_would() -> None:
            ticks = shop.ran()["tick"]
            until(lambda: shop.ran()["tick"] > ticks + VISIBILITY_TIMEOUT_S + RESTORE_INTERVAL_S, 60)

        worker = start(shop.start_worker())
        start(shop.start("beat", "beat", "--schedule", str(tmp_path / "schedule")))
        start(shop.start("flower", "flower", "--address=127.0.0.1", f"--port={port}"))
        shop.send("announce", "fanout", exchange="news", routing_key="")
        until(lambda: shop.ran()["fanout"])
        shop.send("remind", "countdown", countdown=DELAY_S)
        shop.send("remind", "eta", eta=datetime.now(UTC) + timedelta(seconds=DELAY_S))
        shop.send("remind", "topic", countdown=DELAY_S, queue="orders", routing_key="order.paid")
        until(lambda: redis.hlen("unacked") >= 3)
        wait_longer_than_chorale_would()

        # The worker is stopped in order: it gives the messages that wait for their time back, and the next one takes them.
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
        start(shop.start_worker())
        shop.send("report", "acks_late")
        follow = shop.app.signature("shop.keep").set(queue="shop")
        results = [
            shop.app.send_task("chorale.retrieve", args=[REQUEST], queue="chorale.retrieve", link=follow)
            for _ in range(5)
        ]
        assert [one.get(timeout=60)["status"] for one in results] == ["complete"] * 5
        wait_longer_than_chorale_would()
        shop.release_reports()

        once = dict.fromkeys(("countdown", "eta", "topic", "acks_late", "fanout"), 1)
        expected = Counter({**once, "keep complete": 5})

        def others() -> Counter[str]:
            return Counter({name: count for name, count in shop.ran().items() if name != "tick"})

        until(lambda: others() >= expected, 60)
        wait_longer_than_chorale_would()  # beat goes on, and nothing else runs again
        assert others() == expected
        assert redis.hlen(UNACKED) == 0

        # Chorale's events are no error in the application's own worker, nor in its Flower.
        assert [shop.said(name, "ERROR") for name in ("worker", "flower")] == [0, 0]
        address = f"http://127.0.0.1:{port}/api/workers"
        seen = until(lambda: httpx.get(address, timeout=30).json(), 60)
        assert any(name.startswith("celery@") for name in seen)
