"""The pipeline that a command measures: the running one, or one that is started for the command."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from chorale_client import Chorale
from chorale_client.errors import ChoraleError
from redis.exceptions import RedisError

from cli.local.child_process import PrefixedLines
from cli.local.processes import running
from config.home import find_redis_url
from config.redis_client import open_redis
from models.errors import ServiceError
from monitoring.heartbeats import read_heartbeats

if TYPE_CHECKING:
    from config.declarations import Pipeline
    from config.settings import Settings
    from tasks.wiring.resources import Resources


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


@dataclass(frozen=True, slots=True)
class MeasuredPipeline:
    resources: Resources
    client: Chorale
    lines: LastLines
    """Lines of the processes that were started for the command."""


@contextmanager
def measured_pipeline(settings: Settings, pipeline: Pipeline) -> Iterator[MeasuredPipeline]:
    """The running installation of these settings; where none runs, one is started and stopped with the block.

    Raises ServiceError.
    """
    from tasks.wiring.resources import Resources

    with LastLines() as lines, ExitStack() as opened:
        redis_url = settings.redis_url or find_redis_url(settings.home)
        if redis_url is None or not _has_workers(redis_url):
            os.environ.setdefault("CHORALE_LOG_LEVEL", "WARNING")
            started = opened.enter_context(running(settings, pipeline, lines))
            started.supervisor.require_ready()
            redis_url = started.redis_url
        client = Chorale(redis_url, broker_url=settings.broker_url)
        yield MeasuredPipeline(Resources(settings, pipeline, redis_url), client, lines)


def _has_workers(redis_url: str) -> bool:
    try:
        with open_redis(redis_url) as client:
            return bool(read_heartbeats(client))
    except RedisError:
        return False
