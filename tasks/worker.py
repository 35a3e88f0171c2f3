"""One worker process: models and indexes are warm before it takes its first message."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import warnings
from collections.abc import Iterator, Sequence

from celery import Celery
from celery.platforms import SecurityWarning
from chorale_client.words import QUEUE_INDEX
from structlog import get_logger

from config.logging import set_up_logging
from models.errors import WrongDeclaration
from tasks.app import make_app
from tasks.heartbeat import HUNG_AFTER_S, Heartbeat
from tasks.resources import Resources
from tasks.sweeper import Sweeper
from tasks.warming import warm

log = get_logger("chorale.worker")


@contextlib.contextmanager
def sweeping(app: Celery) -> Iterator[None]:
    """Run a sweeper beside whatever this process does."""
    resources: Resources = app.resources
    stop = threading.Event()
    sweeper = Sweeper(resources, app.fanout, interval_s=resources.settings.sweep_interval_s)
    thread = threading.Thread(target=sweeper.run, args=(stop,), name="sweeper", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=1)


def run_worker(queues: Sequence[str], *, name: str) -> None:
    """Work on these queues until told to stop (SIGTERM: what runs is finished first).

    Raises WrongDeclaration for a queue that the pipeline does not have.
    """
    resources = Resources.from_environment()
    known = resources.pipeline.queues
    for queue in queues:
        if queue not in known:
            raise WrongDeclaration(f"no queue {queue!r}; there are: {', '.join(known)}")
    settings = resources.settings
    set_up_logging(level=settings.log_level, log_format=settings.log_format, texts=settings.log_texts)
    # Celery's advice about root is about pickled messages; here only JSON is accepted.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    app = make_app(resources, queues=tuple(queues))
    hung_after_s = None if QUEUE_INDEX in queues else HUNG_AFTER_S
    heartbeat = Heartbeat(resources.redis, name, queues, hung_after_s=hung_after_s)
    heartbeat.start()
    try:
        warm(app, queues)
        with sweeping(app) if settings.sweeper_threads else contextlib.nullcontext():
            worker = app.Worker(
                hostname=f"{name}@{socket.gethostname()}",
                queues=list(queues),
                # Short tasks in the process that has the model: no fork after a model was loaded, no pipe in between.
                pool="solo",
                concurrency=1,
                without_gossip=True,
                without_mingle=True,
                task_events=settings.task_events,
                loglevel="WARNING",
                quiet=True,
            )
            heartbeat.ready = True
            heartbeat.beat()
            log.info("ready", queues=list(queues), name=name, pid=os.getpid(), lean=app.fanout.is_lean)
            worker.start()
    finally:
        heartbeat.stop()
