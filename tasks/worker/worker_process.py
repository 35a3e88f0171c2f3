"""The process `chorale worker`: it waits for Redis, and warms models and indexes before it takes its first message."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from celery import Celery, signals
from celery.platforms import SecurityWarning
from chorale_client.wire_names import QUEUE_BULK, QUEUE_INDEX
from redis.exceptions import RedisError
from structlog import get_logger

from config.logging import set_up_logging
from config.malloc_arenas import limit_arenas
from config.redis_client import explained, refuse_cluster
from config.settings import Settings
from models.declarations.extensions import Kinds
from models.retries import Made, retried
from tasks.celery_internals.event_sender import beat_while_busy
from tasks.celery_internals.warm_shutdown import stopping_softly
from tasks.registration import make_app
from tasks.request.batch import make_intake
from tasks.sweeping.sweeper import Sweeper
from tasks.wiring.pipeline import BUILT_IN
from tasks.wiring.resources import Resources
from tasks.worker.heartbeat import HUNG_AFTER_S, Heartbeat, self_report
from tasks.worker.warming import collect_seldom, warm, warm_again

log = get_logger("chorale.worker")

AGAIN_S, LONGEST_AGAIN_S = 0.5, 4.0
"""First and longest wait between attempts to start while Redis is away or refuses logins; each is twice the last."""

BULK_NICENESS = 5
"""Bulk jobs give way to interactive requests.  With 19 a request beside a job had nearly the same p95 (44.5 instead of 46.2 ms),
and on a machine without idle time a bulk worker got no processor time at all, as under SCHED_IDLE."""


def when_redis_answers(do: Callable[[], Made], url: str) -> Made:
    """Call `do` until it raises no RedisError; returns what it returns.  `url` is for the log."""
    reason, next_s = "", AGAIN_S

    def pause_s(error: Exception) -> float:
        nonlocal reason, next_s
        assert isinstance(error, RedisError)
        if (reason_now := str(explained(error, url))) != reason:
            log.warning("waits for Redis", error=reason_now)
        reason, wait_s, next_s = reason_now, next_s, min(2 * next_s, LONGEST_AGAIN_S)
        return wait_s

    result = retried(do, RedisError, pause_s=pause_s)
    if reason:
        log.info("Redis answers")
    return result


def _prepare_process(settings: Settings) -> None:
    set_up_logging(level=settings.log_level, log_format=settings.log_format, texts=settings.log_texts)
    # Celery warns root users about pickled messages; here only JSON is accepted.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    # With a listener on this signal, Celery leaves levels and handlers as they are.
    signals.setup_logging.connect(lambda **_: None, weak=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        # Until Celery installs its handlers: the first process of a container ignores signals without a handler.
        signal.signal(number, lambda *_: sys.exit(0))


def _celery_worker(app: Celery, queues: Sequence[str], name: str) -> Any:
    return app.Worker(
        hostname=f"{name}@{socket.gethostname()}",
        queues=list(queues),
        # Tasks are short and run in the process that has the model: no fork after loading it, and no pipe to a child.
        pool="solo",
        concurrency=1,
        without_gossip=True,
        without_mingle=True,
        task_events=app.resources.settings.task_events,
        quiet=True,
    )


def run_worker(queues: Sequence[str], *, name: str, kinds: Kinds = BUILT_IN) -> None:
    """Work on these queues until told to stop (`tasks.celery_internals.warm_shutdown`).

    Raises WrongDeclaration for an unknown queue, UnsupportedRedis, and SystemExit with Celery's exit code if the worker ends by an error.
    """
    resources = Resources.from_environment(kinds)
    settings = resources.settings
    resources.pipeline.check_queues(queues)
    _prepare_process(settings)
    if QUEUE_INDEX in queues:
        limit_arenas()
    if QUEUE_BULK in queues:
        resources.answers_jobs = True
    app = make_app(resources, queues=tuple(queues))
    # Before the heartbeat, which would otherwise wait for Redis when the worker is told to stop.
    when_redis_answers(resources.redis.ping, resources.redis_url)
    refuse_cluster(resources.redis, resources.redis_url)
    hung_after_s = HUNG_AFTER_S if {QUEUE_INDEX, QUEUE_BULK}.isdisjoint(queues) else None
    keep = resources.signer.keep
    heartbeat = Heartbeat(resources.redis, name, queues, hung_after_s=hung_after_s, keep=keep)
    heartbeat.start()
    if QUEUE_BULK in queues:
        # This thread gives way, with those that it starts from here on.  The heartbeat has a thread already.
        os.nice(BULK_NICENESS)
    stop, sweeper = threading.Event(), Sweeper(resources, app.fanout, interval_s=settings.sweep_interval_s)
    sweeping = threading.Thread(target=sweeper.run, args=(stop,), name="sweeper", daemon=True)
    try:
        absent = when_redis_answers(lambda: warm(app, queues), resources.redis_url)
        # A bulk worker gets too little of the processor to end requests on time.
        if settings.sweeper_threads and QUEUE_BULK not in queues:
            sweeping.start()
        if app.fanout.is_lean:
            app.intake = make_intake(app, queues)
        worker = _celery_worker(app, queues, name)
        resources.worker_name = worker.hostname if settings.task_events else None

        def consuming(sender: Any, **_: object) -> None:
            heartbeat.about = self_report(resources, worker=sender.controller)
            heartbeat.while_busy = functools.partial(beat_while_busy, sender)
            collect_seldom()
            report(absent)
            if absent:
                again = functools.partial(warm_again, resources, queues, stop, report=report)
                threading.Thread(target=again, name="warming", daemon=True).start()

        def report(absent: Sequence[str]) -> None:
            heartbeat.missing, heartbeat.ready = absent, not absent
            if absent:
                return
            served = [branch.name for branch in resources.pipeline.branches if branch.queue in queues]
            # A full Redis refuses the heartbeat and the breakers; the heartbeat's thread tries again, and logs it.
            with contextlib.suppress(RedisError):
                heartbeat.beat()
                if closed := resources.breakers.close_unserved(served):
                    log.info("breakers closed: a worker came back", branches=closed)
            log.info("ready", queues=list(queues), name=name, pid=os.getpid(), lean=app.fanout.is_lean)

        # Not before it consumes: a message sent earlier would wait in the broker.
        signals.worker_ready.connect(consuming)
        with stopping_softly(worker, settings.soft_shutdown_s):
            worker.start()
        if worker.exitcode:
            sys.exit(worker.exitcode)
    finally:
        stop.set()
        if sweeping.is_alive():
            sweeping.join(timeout=1)
        heartbeat.stop()
