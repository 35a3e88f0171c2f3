"""The pipeline that a command measures: the running one, or one that is started for the command."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from chorale_client.errors import ChoraleError
from redis.exceptions import RedisError

from cli.local.child_output import PrefixedLines
from cli.local.child_process import Output
from cli.local.processes import running
from config.local_redis import find_redis_url
from config.redis_client import open_redis
from models.errors import ServiceError
from monitoring.heartbeats import read_heartbeats

if TYPE_CHECKING:
    from assembly.resources import Resources
    from config.declarations import Pipeline
    from config.settings import Settings


class LastLines:
    """Keeps the last lines that processes wrote, and shows them if the `with` block fails with an error of the service."""

    def __init__(self) -> None:
        self._lines: deque[tuple[str, bytes]] = deque(maxlen=40)

    def __call__(self, name: str, line: bytes) -> None:
        self._lines.append((name, line))

    def show(self) -> None:
        """Print them on stderr."""
        write = PrefixedLines(sys.stderr, [name for name, _ in self._lines])
        for name, line in self._lines:
            write(name, line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, ServiceError | ChoraleError):
            self.show()


@contextmanager
def measured_pipeline(settings: Settings, pipeline: Pipeline, output: Output) -> Iterator[Resources]:
    """The running installation of these settings; where none runs, one is started and stopped with the block.

    `output` takes the lines of the processes that are started here.  Raises ServiceError.
    """
    from assembly.resources import Resources

    redis_url = settings.redis_url or find_redis_url(settings.home)
    if redis_url is not None and _has_workers(redis_url):
        yield Resources(settings, pipeline, redis_url)
        return
    os.environ.setdefault("CHORALE_LOG_LEVEL", "WARNING")
    with running(settings, pipeline, output) as started:
        started.supervisor.require_ready()
        yield Resources(settings, pipeline, started.redis_url)


def _has_workers(redis_url: str) -> bool:
    try:
        with open_redis(redis_url) as client:
            return bool(read_heartbeats(client))
    except RedisError:
        return False
