"""The store of jobs that a command works on, and what `chorale jobs submit` puts into it."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import typer
from chorale_client.errors import InvalidJob
from chorale_client.wire_names import QUEUE_BULK
from redis import RedisError

from cli.installation import Installation, NotRunning, find_installation, upgraded_database
from cli.namespace_states import published
from cli.options import seconds_of
from config.redis_client import redis_ms
from models.errors import ServiceError
from records.jobs.job import JobsUnavailable, NewJob

if TYPE_CHECKING:
    from chorale_client.jobs.input_stats import InputStats

    from records.jobs.store import Jobs


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
        from monitoring.checks import Running, sweeper, workers

        try:
            running = Running(self.installation.running_redis(), [QUEUE_BULK])
            findings = [*workers(running), *sweeper(running)]
            has_worker = any(each.is_serving and QUEUE_BULK in each.queues for each in running.processes)
        except NotRunning as error:
            why = str(error) if self.installation.redis_url else "nothing runs here"
            return f"{why}; the job waits for `chorale up`"
        except RedisError:
            return "Redis does not answer; the job waits for `chorale up`"
        for finding in findings:
            if finding.part and not (finding.part == QUEUE_BULK and has_worker):
                return f"{finding.what}, and the job waits: {finding.mend}"
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
    from records.database import trail_file
    from records.jobs.store import Jobs

    installation = find_installation(has_structlog=False)
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


def opened(file: str) -> IO[bytes]:
    """The file, or stdin for `-`."""
    if file == "-":
        return sys.stdin.buffer
    try:
        return Path(file).open("rb")
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}", param_hint="FILE") from None


def deadline_s_of(text: str | None) -> int | None:
    return None if text is None else seconds_of(text, "--deadline", most_days=365)


def target_of(text: str | None) -> dict[str, str] | None:
    """`{"url": address}`, or `{"task": name, "queue": name}` of TASK@QUEUE."""
    if text is None:
        return None
    task, at, queue = text.rpartition("@")
    return {"url": text} if "://" in text or not at else {"task": task, "queue": queue}


def store_lines(opened_jobs: OpenJobs, new: NewJob, lines: Iterator[Any], *, refuses: bool) -> InputStats:
    """Stores the job and its lines with a bar of progress; raises InvalidJob, and then there is no job."""
    from chorale_client.jobs.input_stats import InputStats

    from cli.progress import ProgressBar
    from cli.terminal import stderr
    from records.jobs.submitting import submit_lines

    # SIGTERM, an orderly `kill`, refuses the job as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ProgressBar(stderr(), "validating") as bar:
        read = InputStats(
            refuses,
            progress=lambda read: bar.show(read.lines, note=f"{read.wrong:,} wrong" if read.wrong else ""),
        )
        try:
            submit_lines(opened_jobs.store, new, lines, read, now_ms=opened_jobs.now_ms)
        except InvalidJob as error:
            if not error.wrong:
                raise
            hint = "the job is refused; `--on-error skip` asks the other lines"
            raise InvalidJob(f"{hint}: {error}") from None
    return read
