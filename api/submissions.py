"""A job that arrives: its lines are checked, narrowed to the caller's grant and stored while the upload goes on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from chorale_client.errors import InvalidJob
from chorale_client.job_lines import defaults_in, read_lines
from chorale_client.lines_read import LinesRead
from chorale_client.request import Request

from access.grant import Grant
from api.problems import Problem
from api.uploads import Upload
from jobs.job import Job, NewJob, NoSuchJob, Outcome, State, WrongState
from jobs.store import Jobs
from jobs.submitting import submit_lines


class Submission:
    """One upload; `run` is called in a thread."""

    def __init__(
        self,
        upload: Upload,
        jobs: Jobs,
        grant: Grant,
        new: NewJob,
        options: dict[str, Any],
        now_ms: Callable[[], int],
        *,
        refuses: bool,
    ) -> None:
        self._upload, self._jobs, self._grant = upload, jobs, grant
        self._new, self._options, self._now_ms = new, options, now_ms
        self._read = LinesRead(refuses)

    def run(self) -> tuple[Job, bool, LinesRead]:
        """The job, whether it is new, and what was read.  Raises Problem, and what `read_lines` and the store raise."""
        new, stream = self._new, self._upload.open()
        if self._upload.name and not new.name:
            new = replace(new, name=self._upload.name)
        defaults = defaults_in(new.namespace, self._options)
        lines = read_lines(stream, form=self._upload.form, defaults=defaults, applied=self._applied)
        if not self._is_created(new):
            return self._known(self._jobs.get(new.job_id)), False, self._read
        try:
            submit_lines(self._jobs, new, lines, self._read, now_ms=self._now_ms)
        except InvalidJob as error:
            raise Problem(
                "invalid",
                str(error),
                job_id=new.job_id,
                wrong=error.wrong,
                lines=[{"line": number, "error": said} for number, said in error.lines],
            ) from None
        return self._jobs.get(new.job_id), True, self._read

    def _applied(self, request: Request) -> Request:
        return self._grant.applied(request.model_copy(update={"request_id": self._new.job_id}))

    def _is_created(self, new: NewJob) -> bool:
        """False if an upload with the same key has made the job.  The job of an upload that failed is deleted and made again."""
        if self._jobs.create(new, now_ms=self._now_ms()):
            return True
        known = self._jobs.get(new.job_id)
        if known.outcome != Outcome.FAILED or known.total:
            return False
        with suppress(NoSuchJob, WrongState):  # another repetition was first
            self._jobs.delete(new.job_id)
        return self._jobs.create(new, now_ms=self._now_ms())

    def _known(self, job: Job) -> Job:
        if job.state == State.VALIDATING:
            raise Problem("being_created", f"job {job.job_id!r} is being submitted with this key")
        return job
