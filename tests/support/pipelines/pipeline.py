"""A complete pipeline for tests: its own Redis, its own folder, real worker processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from chorale_client import Chorale
from chorale_client.wire_names import QUEUE_INDEX

import tests.support.models.shared_model  # noqa: F401  # the pipelines of this process have one model
from config.settings import Settings
from models.declarations.extensions import Kinds
from models.documents import Document, Manifest, Passage
from tasks.registration import make_app
from tasks.wiring.pipeline import BUILT_IN, load_pipeline
from tasks.wiring.resources import Resources
from tests.support.pipelines.fork_server import ForkServer, Process
from tests.support.servers.redis_server import RedisServer

ROOT = Path(__file__).parents[3]
READY_LIMIT_S = 120.0
WORKER = "worker"
FORK_SERVER = ForkServer(ROOT)
PYTHONPATH = os.pathsep.join([str(ROOT / "client"), str(ROOT)])
"""PYTHONPATH of a process, with the client of this tree, which may differ from the installed one."""

CORPUS = {
    "notice": (
        "Notice periods",
        "A tenant who wants to leave gives notice three months before the end of a month.",
    ),
    "deposit": ("Deposits", "The deposit is returned when the flat has been handed over without damage."),
    "error": ("Error ERR-4711", "ERR-4711 means that the disk of the meter is full and must be exchanged."),
    "bread": ("Bread", "Bread is baked from flour, water, salt and a little patience."),
    "repairs": ("Repairs", "The landlord pays for repairs, unless the renter broke the thing on purpose."),
}


def logging_to(file: Path) -> str:
    """Returns code for `preload` that sends the stderr of the processes to `file`."""
    opened = f"os.open({str(file)!r}, os.O_CREAT | os.O_WRONLY | os.O_APPEND)"
    return f"import os; os.dup2({opened}, 2)\n"


class RunningPipeline:
    """Starts and ends the processes.

    `queues` names a worker for each, which may be several queues with commas.  Without it a process named `worker` serves
    all queues but `bulk` and those in `alone`, which have a worker of their own: a test can kill and pause that one.
    `sweeper` adds `chorale sweeper`.

    `preload` is code that every process runs first, to register what a test adds.  The processes are forks of one
    that has imported the product already; with `forked=False` each is an interpreter of its own.
    """

    def __init__(
        self,
        server: RedisServer,
        *,
        queues: Sequence[str] | None = None,
        alone: Collection[str] = (),
        sweeper: bool = False,
        pipeline_file: Path | None = None,
        environment: Mapping[str, str] | None = None,
        kinds: Kinds = BUILT_IN,
        preload: str = "",
        forked: bool = True,
    ) -> None:
        self.server = server
        self._forked = forked
        self._folder = tempfile.TemporaryDirectory(prefix="chorale-home-")
        self.home = Path(self._folder.name)
        variables = {
            "CHORALE_REDIS_URL": server.url,
            "CHORALE_HOME": str(self.home),
            "CHORALE_LOG_LEVEL": "WARNING",
        }
        if pipeline_file:
            variables["CHORALE_PIPELINE_FILE"] = str(pipeline_file)
        self.environment = {**variables, **(environment or {})}
        names: dict[str, Any] = {
            name.removeprefix("CHORALE_").lower(): value for name, value in self.environment.items()
        }
        self.resources = Resources(Settings(**names), load_pipeline(pipeline_file, kinds), server.url)
        self.app = make_app(self.resources)
        self.redis = self.resources.redis
        everyday = (*self.resources.pipeline.request_queues, QUEUE_INDEX)
        together = ",".join(queue for queue in everyday if queue not in alone)
        self._served: dict[str, str | None] = dict.fromkeys(alone if queues is None else queues)
        if queues is None:
            self._served[WORKER] = together
        self._sweeper = sweeper
        self.preload = preload
        self.processes: dict[str, Process] = {}
        self._queue_of: dict[str, str | None] = {}

    def __enter__(self) -> Self:
        try:
            for name, queue in self._served.items():
                self.start(name, queue=queue)
            if self._sweeper:
                self.start("sweeper")
            self.wait_ready()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self.processes):
            self.kill(name)
        # A Redis connection warns if the garbage collector takes its socket first.
        self.app.close()
        self.redis.connection_pool.disconnect()
        self._folder.cleanup()

    def start(self, name: str, *, queue: str | None = None) -> None:
        """Starts a worker of `queue`, which may be several with commas (by default the queue of its name), a `sweeper…`, or a
        `drainer…`."""
        if name.startswith("sweeper"):
            call = (
                "from cli.commands.processes import adapting; from tasks.worker.sweeper_process import run; "
                f"run(name={name!r}, also=adapting)"
            )
        elif name.startswith("drainer"):
            call = f"from tasks.worker.sweeper_process import run; run(name={name!r}, only='drain')"
        else:
            queues = (queue or name).split(",")
            call = f"from tasks.worker.worker_process import run_worker; run_worker({queues}, name={name!r})"
        self._queue_of[name] = queue
        code = f"{self.preload}\n{call}"
        environment = {
            **os.environ,
            **self.environment,
            "PYTHONPATH": PYTHONPATH,
            "CHORALE_TEST_PROCESS": name,
        }
        if self._forked:
            self.processes[name] = FORK_SERVER.fork(code, environment)
        else:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-c", code], cwd=ROOT, env=environment, start_new_session=True
            )

    def wait_ready(self, names: Iterable[str] | None = None) -> None:
        until = time.monotonic() + READY_LIMIT_S
        for name in list(self.processes if names is None else names):
            while b'"ready": true' not in (self.redis.get(f"chorale:heartbeat:{name}") or b""):
                code = self.processes[name].poll()
                assert code is None, f"{name} ended with {code} before it was ready"
                assert time.monotonic() < until, f"{name} was not ready in {READY_LIMIT_S:.0f} s"
                time.sleep(0.05)

    def revive(self) -> None:
        """Resumes paused processes, restarts ended ones, and waits until all are ready."""
        for process in self.processes.values():
            process.send_signal(signal.SIGCONT)
        self.restart_ended()
        self.wait_ready()

    def restart_ended(self) -> None:
        for name, process in list(self.processes.items()):
            if process.poll() is not None:
                self.redis_forget(name)
                self.start(name, queue=self._queue_of.get(name))

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()
        self.redis_forget(name)

    def redis_forget(self, name: str) -> None:
        try:
            self.redis.delete(f"chorale:heartbeat:{name}")
        except Exception:  # the server may be one that the test killed
            return

    def pause(self, name: str) -> None:
        self.processes[name].send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self.processes[name].send_signal(signal.SIGCONT)

    def client(self, **options: Any) -> Chorale:
        settings = self.resources.settings
        usual = {"answer_ttl_s": settings.answer_ttl_s, "broker_url": settings.broker_url}
        return Chorale(self.server.url, **{**usual, **options})

    def index(
        self, texts: Mapping[str, tuple[str, str]] = CORPUS, *, namespace: str = "default", **metadata: Any
    ) -> int:
        """Indexes documents of one passage each with the default encoder; returns the generation."""
        embedder, store = self.resources.encoder.indexing, self.resources.writing_store
        store.create(namespace, manifest_of(embedder))
        vectors = embedder.embed_passages([f"{title}\n{text}" for title, text in texts.values()])
        documents = [
            Document(
                document_id=name,
                source="tests",
                title=title,
                passages=(Passage(f"{name}#0", 0, text, end=len(text), vector=vector),),
                metadata=metadata,
                content_hash=f"{name}:{text}",
                revision=f"{title}{text}",
            )
            for (name, (title, text)), vector in zip(texts.items(), vectors, strict=True)
        ]
        generation = store.upsert(namespace, documents)
        self.resources.generations.publish(namespace, generation)
        return generation


def manifest_of(embedder: Any) -> Manifest:
    return Manifest(
        splitter="whole",
        language="en",
        analyser="tests",
        embedder=embedder.fingerprint,
        dimension=embedder.dimension,
    )
