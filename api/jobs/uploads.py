"""An upload: its body is a binary file that another thread reads while it arrives, and its lines become a job."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

from anyio import from_thread
from chorale_client.errors import InvalidJob
from chorale_client.jobs.input_stats import InputStats
from chorale_client.jobs.lines import defaults_in, read_lines
from chorale_client.request import Request
from fastapi import Request as HttpRequest
from python_multipart.multipart import parse_options_header

from api.problems import Problem
from api.upload_limits import paced
from records.jobs.job import Job, NewJob, NoSuchJob, Outcome, State, WrongState
from records.jobs.store import Jobs
from records.jobs.submitting import submit_lines
from records.keys.grant import Grant

MEDIA_TYPES: dict[str, Literal["jsonl", "csv"]] = {
    "application/jsonl": "jsonl",
    "application/x-ndjson": "jsonl",
    "application/x-jsonlines": "jsonl",
    "text/csv": "csv",
    "text/tab-separated-values": "csv",
}


class Upload(io.RawIOBase):
    """Reads the body from a worker thread of the event loop; its `form` is `jsonl` or `csv`."""

    def __init__(self, request: HttpRequest) -> None:
        """Raises Problem for a compressed body, and for a media type that is not in MEDIA_TYPES."""
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise Problem("unsupported_media_type", "Content-Encoding: send the lines uncompressed")
        media_type = (
            parse_options_header(request.headers.get("content-type", ""))[0].decode("latin-1").lower()
        )
        if media_type not in MEDIA_TYPES:
            types = ", ".join(MEDIA_TYPES)
            raise Problem("unsupported_media_type", f"Content-Type: there are: {types}", field="Content-Type")
        self.form = MEDIA_TYPES[media_type]
        self._body = paced(request.stream())
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            arrived = from_thread.run(anext, self._body, None)
            if arrived is None:
                return 0
            self._rest = arrived
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


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

    defaults = defaults_in(new.namespace, options)
    lines = read_lines(io.BufferedReader(upload), form=upload.form, defaults=defaults, applied=applied)
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
            lines=[{"line": number, "error": fault} for number, fault in error.lines],
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
