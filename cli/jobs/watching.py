"""Shows a job until it has ended: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console

from cli.terminal import Text
from cli.views.jobs import JobBar, progress_line
from jobs.job import Job, JobsUnavailable, State
from jobs.store import Jobs
from jobs.submitting import INSIST_S

EVERY_S = 0.5
LINE_EVERY_S = 5.0


def watch_job(store: Jobs, job_id: str, console: Console) -> Job:
    """Returns the job when it has ended.  A database that is away is asked again for INSIST_S."""
    with JobBar(console) as bar:
        tell = bar.show if console.is_terminal else _lines(console)
        give_up = time.monotonic() + INSIST_S
        while True:
            try:
                job = store.get(job_id)
            except JobsUnavailable:
                if time.monotonic() > give_up:
                    raise
            else:
                give_up = time.monotonic() + INSIST_S
                if job.state == State.ENDED:
                    return job
                tell(job)
            time.sleep(EVERY_S)


def _lines(console: Console) -> Callable[[Job], None]:
    last, said = -LINE_EVERY_S, ""

    def tell(job: Job) -> None:
        nonlocal last, said
        line = progress_line(job)
        if line != said and time.monotonic() - last >= LINE_EVERY_S:
            console.print(Text(line), soft_wrap=True)
            last, said = time.monotonic(), line

    return tell
