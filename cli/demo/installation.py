"""The demo's own installation: a temporary folder, a Redis and workers, which end with the demo."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chorale_client import Chorale
from chorale_client.keys import GENERATION, OUTBOX

from cli.local.processes import running
from models.errors import ServiceError

if TYPE_CHECKING:
    from cli.local.child_process import Output
    from cli.local.supervisor import Supervisor
    from wiring.resources import Resources

NAMESPACE = "python"
_KEPT = frozenset({"CHORALE_REDIS_URL", "CHORALE_MODEL_THREADS"})
_OURS = {
    "CHORALE_LOG_LEVEL": "WARNING",
    # A worker hangs, and the others answer.
    "CHORALE_LAYOUT": "queues",
    # The demo indexes by itself, and the fewer processes warm up the sooner it begins.
    "CHORALE_WORKER_PROCESSES": "index=0,bulk=0",
    # Twice as fast as fp32: a first look should not take two minutes on a small machine.
    "CHORALE_EMBEDDER_DOCUMENT_PRECISION": "int8",
}


@dataclass(frozen=True, slots=True)
class DemoInstallation:
    """A started installation, which may not be ready yet."""

    resources: Resources
    supervisor: Supervisor
    client: Chorale
    namespace: str


@contextmanager
def demo_installation(output: Output) -> Iterator[DemoInstallation]:
    """An installation in a temporary folder, with the default settings; `output` takes the lines of the workers.

    It ends with the block, on SIGTERM, and when the terminal closes; its processes end with this one in any case.
    Raises ServiceError if no Redis can be used.
    """
    from config.logging import set_up_logging
    from config.settings import load_settings
    from wiring.pipeline import load_pipeline
    from wiring.resources import Resources

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    with tempfile.TemporaryDirectory(prefix="chorale-demo-", ignore_cleanup_errors=True) as home:
        for name in [name for name in os.environ if name.startswith("CHORALE_") and name not in _KEPT]:
            del os.environ[name]
        os.environ.update(_OURS, CHORALE_HOME=home)
        settings = load_settings()
        set_up_logging(level="WARNING", log_format="console", texts=False)
        pipeline = load_pipeline(None)
        namespace = NAMESPACE
        if settings.redis_url is not None:
            _check_unused(settings.redis_url)
            # The cache of that Redis may still have answers of an earlier demo.
            namespace = f"{NAMESPACE}-{os.getpid()}"
        with running(settings, pipeline, output) as started:
            resources = Resources(settings, pipeline, started.redis_url)
            try:
                yield DemoInstallation(resources, started.supervisor, Chorale(started.redis_url), namespace)
            finally:
                # A second request kills at once: the folder is deleted, so nothing needs an orderly end.
                started.supervisor.request_stop()
                started.supervisor.request_stop()
                if settings.redis_url is not None:
                    resources.redis.delete(GENERATION + namespace)  # everything else expires


def _end(number: int, _: object) -> None:
    sys.exit(128 + number)


def _check_unused(redis_url: str) -> None:
    from redis import RedisError

    from config.redis_client import open_redis
    from monitoring.heartbeats import read_heartbeats

    with open_redis(redis_url) as client:
        try:
            is_used = bool(read_heartbeats(client)) or bool(client.xlen(OUTBOX))
        except RedisError:
            return  # starting the workers reports it
    if is_used:
        raise ServiceError(
            "the Redis of CHORALE_REDIS_URL belongs to an installation, and the demo's workers would take its "
            "requests: leave the variable out, and the demo starts a Redis of its own"
        )
