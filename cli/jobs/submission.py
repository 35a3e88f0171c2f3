"""What `chorale jobs submit` is given: the file, the options, the deadline and who is told; and storing it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import typer
from chorale_client.errors import InvalidJob
from chorale_client.input_stats import InputStats

from cli.jobs.opening import OpenJobs
from cli.options import seconds_of
from cli.progress import ProgressBar
from cli.terminal import stderr
from jobs.job import NewJob
from jobs.submitting import submit_lines


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
