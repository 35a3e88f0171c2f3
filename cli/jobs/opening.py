"""The store of jobs that a command works on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from chorale_client.wire_names import QUEUE_BULK
from redis import RedisError

from audit.database import trail_file
from cli.installation import Installation, find_installation, upgraded_database
from cli.namespace_states import published
from config.redis_client import redis_ms
from jobs.job import JobsUnavailable
from jobs.store import Jobs
from models.errors import ServiceError
from monitoring.heartbeats import read_heartbeats


class NoJobs(ServiceError):
    """There is no database of jobs yet."""


@dataclass
class OpenJobs:
    installation: Installation
    store: Jobs

    def now_ms(self) -> int:
        """Now by the Redis server's clock; by this machine's if Redis does not answer."""
        return time.time_ns() // 1_000_000 + self._ahead_ms

    @cached_property
    def _ahead_ms(self) -> int:
        redis = self.installation.redis
        return 0 if redis is None else redis_ms(redis) - time.time_ns() // 1_000_000

    def missing(self) -> str | None:
        """What has to be started before a job goes on; None if everything runs."""
        redis = self.installation.redis
        if redis is None:
            why = self.installation.why_not_running if self.installation.redis_url else "nothing runs here"
            return f"{why}; the job waits for `chorale up`"
        try:
            beats = read_heartbeats(redis)
        except RedisError:
            beats = []
        if not beats:
            return "no worker runs here; the job waits for `chorale up`"
        if not any(QUEUE_BULK in beat.queues for beat in beats):
            return f"no worker serves {QUEUE_BULK}; the job waits for `chorale worker bulk`"
        if not any(not beat.queues for beat in beats):
            return "no sweeper runs; the job waits for `chorale sweeper`"
        return None

    def unknown_namespace(self, namespace: str) -> str | None:
        """A sentence if Redis has no namespace of this name; None where Redis does not answer."""
        if self.installation.redis is None or published(self.installation, [namespace]):
            return None
        return (
            f"there is no namespace {namespace!r} yet; `chorale namespaces list` shows those that are there"
        )


@contextmanager
def open_jobs(*, create: bool = False) -> Iterator[OpenJobs]:
    """The jobs of this installation; with `create` the tables are made if they are missing, otherwise raises NoJobs."""
    installation = find_installation()
    url = installation.settings.audit_database_url
    if create:
        upgraded_database(installation.settings, "jobs", JobsUnavailable)
    file = trail_file(url)
    # Opening a missing file would create it.
    is_there = file is None or file.exists()
    store = Jobs(url)
    try:
        if not (is_there and store.has_tables()):
            raise NoJobs("there are no jobs yet: `chorale jobs submit FILE` makes one")
        yield OpenJobs(installation, store)
    finally:
        store.close()
