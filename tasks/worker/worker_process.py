"""One worker process: models and indexes are warm before it takes its first message, and Redis is waited for."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from celery import Celery, signals
from celery.platforms import SecurityWarning
from chorale_client.words import QUEUE_INDEX
from redis.exceptions import RedisError
from structlog import get_logger

from assembly.resources import Resources
from config.logging import set_up_logging
from config.redis_failures import trouble
from models.errors import WrongDeclaration
from tasks.celery_surface.stopping import stopping_softly
from tasks.registration import make_app
from tasks.sweeping.sweeper import Sweeper
from tasks.worker.heartbeat import HUNG_AFTER_S, Heartbeat
from tasks.worker.self_report import about
from tasks.worker.warming import warm, warm_models_again

log = get_logger("chorale.worker")

AGAIN_S, LONGEST_AGAIN_S = 0.5, 4.0
"""Between attempts to begin while Redis is away or lets nobody in; each is twice the last."""

Made = TypeVar("Made")


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


def _keep_logging(**_: object) -> None:
    """Logging was set up before."""


def when_redis_answers(do: Callable[[], Made], url: str) -> Made:
    """What `do` returns, tried until the Redis at `url` does not fail it."""
    wrong, wait_s = "", AGAIN_S
    while True:
        try:
            made = do()
        except RedisError as error:
            if (found := str(trouble(error, url))) != wrong:
                log.warning("waits for Redis", error=found)
            wrong = found
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, LONGEST_AGAIN_S)
        else:
            if wrong:
                log.info("Redis answers")
            return made


def run_worker(queues: Sequence[str], *, name: str) -> None:
    """Work on these queues until told to stop (see `tasks.celery_surface.stopping`); before the first message that is at once.

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
    # Somebody listens, so Celery leaves the levels and handlers as they are.
    signals.setup_logging.connect(_keep_logging, weak=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        # Until Celery has its own: the first process of a container heeds no signal that it has no handler for.
        signal.signal(number, lambda *_: sys.exit(0))
    app = make_app(resources, queues=tuple(queues))
    # Before there are signs of life, the last of which would be waited for.
    when_redis_answers(resources.redis.ping, resources.redis_url)
    hung_after_s = None if QUEUE_INDEX in queues else HUNG_AFTER_S
    heartbeat = Heartbeat(resources.redis, name, queues, hung_after_s=hung_after_s)
    heartbeat.start()
    stop = threading.Event()
    try:
        is_warm = when_redis_answers(lambda: warm(app, queues), resources.redis_url)
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
                quiet=True,
            )

            def consuming(sender: Any, **_: object) -> None:
                heartbeat.about = about(resources, worker=sender.controller)
                if is_warm:
                    ready()
                else:
                    again = functools.partial(warm_models_again, resources, queues, stop, done=ready)
                    threading.Thread(target=again, name="models", daemon=True).start()

            def ready() -> None:
                heartbeat.ready = True
                heartbeat.beat()
                log.info("ready", queues=list(queues), name=name, pid=os.getpid(), lean=app.fanout.is_lean)

            # When it consumes, not before: a message that nobody takes yet would wait for the broker.
            signals.worker_ready.connect(consuming)
            with stopping_softly(worker, settings.soft_shutdown_s):
                worker.start()
    finally:
        stop.set()
        heartbeat.stop()
