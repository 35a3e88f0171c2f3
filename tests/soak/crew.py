"""The processes of a soak: workers, sweeper and callers."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chorale_client.keys import WAKEUPS
from redis import Redis

from models.documents import Manifest
from models.plan import Plan
from tests.soak import plain_chord, questions
from tests.support.pipelines import failpoints
from tests.support.pipelines.fork_server import Process
from tests.support.pipelines.kinds import kinds_with
from tests.support.pipelines.pipeline import FORK_SERVER, ROOT, RunningPipeline
from tests.support.servers.redis_server import RedisServer

ASKERS = 3

PRELOAD = "from tests.soak import questions; questions.declare()\n" + failpoints.PRELOAD


@dataclass(slots=True)
class Askers:
    """The callers' processes; a killed one starts again after the last request that it began."""

    system: str
    redis_url: str
    seed: int
    requests: int
    folder: Path
    processes: dict[str, Process] = field(default_factory=dict)

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def start(self, name: str) -> None:
        begun = [one["number"] for one in self._events(name) if one["event"] == "begun"]
        first = max(begun) + ASKERS if begun else int(name.rpartition(".")[2])
        what = [self.system, self.redis_url, self.seed, first, self.requests, ASKERS, str(self.log(name))]
        call = f"from tests.soak import asker; asker.main({what})"
        self.processes[name] = FORK_SERVER.fork(call, os.environ)

    def start_all(self) -> None:
        for number in range(ASKERS):
            self.start(f"asker.{number}")

    def at_work(self) -> dict[str, Process]:
        """Returns the callers that have not asked all their requests."""
        return {name: one for name, one in self.processes.items() if one.poll() != 0}

    def _events(self, name: str) -> list[dict[str, Any]]:
        if not self.log(name).exists():
            return []
        return [json.loads(line) for line in self.log(name).read_bytes().splitlines()]

    def events(self) -> list[dict[str, Any]]:
        return [event for number in range(ASKERS) for event in self._events(f"asker.{number}")]

    def begun(self) -> int:
        logs = [self.log(name) for name in self.processes]
        return sum(log.read_bytes().count(b'"begun"') for log in logs if log.exists())


@dataclass(slots=True)
class ChoraleCrew:
    pipeline: RunningPipeline
    askers: Askers

    @property
    def server(self) -> RedisServer:
        return self.pipeline.server

    @property
    def redis(self) -> Redis:
        return self.pipeline.redis

    @property
    def database(self) -> Path:
        return self.pipeline.home / "audit.db"

    def running(self) -> dict[str, Process]:
        return {**self.pipeline.processes, **self.askers.at_work()}

    def start(self, name: str) -> None:
        (self.askers if name.startswith("asker.") else self.pipeline).start(name)

    def begun(self) -> int:
        return self.askers.begun()

    def duplicate(self, chance: random.Random) -> None:
        request_id: Any = self.redis.zrandmember(WAKEUPS)
        entry = self.pipeline.resources.ledger.load(request_id.decode()) if request_id else None
        if entry is None:
            return
        fanout = self.pipeline.app.fanout
        kind = chance.choice(("retrieve", "part", "fuse"))
        for _ in range(chance.choice((1, 1, 10))):
            if kind == "retrieve":
                fanout.send_retrieve(entry.request_id)
            elif entry.plan is not None and kind == "part":
                fanout.send_part(
                    entry.request_id, chance.choice(Plan.model_validate_json(entry.plan).branches)
                )
            elif entry.plan is not None:
                fanout.send_fuse(entry.request_id)


@dataclass(slots=True)
class PlainCrew:
    server: RedisServer
    askers: Askers
    redis: Redis
    acks_late: bool
    workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    database: Path | None = None

    def running(self) -> dict[str, Process]:
        return {**self.workers, **self.askers.at_work()}

    def start(self, name: str) -> None:
        if name.startswith("asker."):
            self.askers.start(name)
            return
        call = f"from tests.soak import plain_chord; plain_chord.work({name!r}, acks_late={self.acks_late})"
        self.workers[name] = subprocess.Popen(
            [sys.executable, "-c", call],
            cwd=ROOT,
            env={**os.environ, "CHORALE_REDIS_URL": self.server.url},
            start_new_session=True,
        )

    def begun(self) -> int:
        return self.askers.begun()

    def duplicate(self, chance: random.Random) -> None:
        queue = plain_chord.QUEUE.format(name=chance.choice((*questions.BRANCHES, plain_chord.FUSION)))
        waiting: Any = self.redis.lrange(queue, -1, -1)
        for message in waiting:
            self.redis.lpush(queue, message)


@contextmanager
def chorale(seed: int, requests: int) -> Iterator[ChoraleCrew]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chorale-soak-")))
        file = folder / "pipeline.toml"
        file.write_text(questions.PIPELINE)
        server = stack.enter_context(RedisServer(appendonly=True))
        pipeline = stack.enter_context(
            RunningPipeline(
                server,
                queues=[f"chorale.{name}" for name in ("retrieve", *questions.BRANCHES, "fusion", "index")],
                sweeper=True,
                pipeline_file=file,
                # This process gets the kind as a value; its tables of kinds do not change.
                kinds=kinds_with(questions.KIND),
                preload=PRELOAD,
                environment={"CHORALE_ANSWER_TTL_S": "86400", "CHORALE_LOG_LEVEL": "ERROR"},
            )
        )
        # The branches of a soak compute their documents, so the namespace stays empty.
        store = pipeline.resources.writing_store
        store.create(questions.NAMESPACE, Manifest("none", "en", "none", "none", 1))
        # Answers of another generation than the plan's would not be cached.
        pipeline.resources.generations.publish(questions.NAMESPACE, store.generation(questions.NAMESPACE))
        askers = Askers("chorale", server.url, seed, requests, folder)
        yield from _with_askers(ChoraleCrew(pipeline, askers), askers)


@contextmanager
def plain(seed: int, requests: int, *, acks_late: bool) -> Iterator[PlainCrew]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chorale-soak-")))
        server = stack.enter_context(RedisServer(appendonly=True))
        askers = Askers("plain_chord", server.url, seed, requests, folder)
        crew = PlainCrew(server, askers, server.client(), acks_late)
        for name in (*questions.BRANCHES, plain_chord.FUSION):
            crew.start(name)
        try:
            yield from _with_askers(crew, askers)
        finally:
            for process in crew.workers.values():
                process.kill()
                process.wait()


def _with_askers(crew: Any, askers: Askers) -> Iterator[Any]:
    askers.start_all()
    try:
        yield crew
    finally:
        for process in askers.processes.values():
            process.kill()
            process.wait()


def wait_until(so: Callable[[], bool], limit_s: float) -> bool:
    """Returns whether the condition became true within the limit."""
    until = time.monotonic() + limit_s
    while not so():
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True
