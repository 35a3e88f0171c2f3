"""A job that arrives: its lines are checked, narrowed to the caller's grant and stored while the upload goes on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from chorale_client.errors import InvalidJob
from chorale_client.input_stats import InputStats
from chorale_client.job_lines import defaults_in, read_lines
from chorale_client.request import Request

from access.grant import Grant
from api.problems import Problem
from api.uploads import Upload
from jobs.job import Job, NewJob, NoSuchJob, Outcome, State, WrongState
from jobs.store import Jobs
from jobs.submitting import submit_lines


def submit(
    upload: Upload,
    jobs: Jobs,
    grant: Grant,
    new: NewJob,
    options: dict[str, Any],
    now_ms: Callable[[], int],
    read: InputStats,
) -> tuple[Job, bool]:
    """The job, and whether it is new; counts its lines in `read`.  Call it in a thread.

    Raises Problem, and what `read_lines` and the store raise.
    """

    def applied(request: Request) -> Request:
        return grant.applied(request.model_copy(update={"request_id": new.job_id}))

    stream = upload.open()
    if upload.name and not new.name:
        new = replace(new, name=upload.name)
    defaults = defaults_in(new.namespace, options)
    lines = read_lines(stream, form=upload.form, defaults=defaults, applied=applied)
    if not _is_created(jobs, new, now_ms):
        known = jobs.get(new.job_id)
        if known.state == State.VALIDATING:
            raise Problem("being_created", f"job {new.job_id!r} is being submitted with this key")
        return known, False
    try:
        submit_lines(jobs, new, lines, read, now_ms=now_ms)
    except InvalidJob as error:
        raise Problem(
            "invalid",
            str(error),
            job_id=new.job_id,
            wrong=error.wrong,
            lines=[{"line": number, "error": said} for number, said in error.lines],
        ) from None
    return jobs.get(new.job_id), True


def _is_created(jobs: Jobs, new: NewJob, now_ms: Callable[[], int]) -> bool:
    """False if an upload with the same key has made the job.  The job of an upload that failed is deleted and made again."""
    if jobs.create(new, now_ms=now_ms()):
        return True
    known = jobs.get(new.job_id)
    if known.outcome != Outcome.FAILED or known.total:
        return False
    with suppress(NoSuchJob, WrongState):  # another repetition was first
        jobs.delete(new.job_id)
    return jobs.create(new, now_ms=now_ms())
