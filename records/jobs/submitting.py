"""Stores the lines of an input as a job, a few segments at a time."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from chorale_client.errors import InvalidRequest
from chorale_client.jobs.input_stats import InputStats, messages
from chorale_client.jobs.job import Submission
from chorale_client.jobs.job_line import JobLine
from pydantic import ValidationError

from config.callback_policy import check_on_end
from config.settings import Settings
from models.errors import ServiceError
from models.retries import Made, retried
from records.jobs.job import JobsUnavailable, Line, NewJob
from records.jobs.store import Jobs

INSIST_S = 30.0
"""How long a locked database is tried again."""


def described(**about: Any) -> Submission:
    """What belongs to a job besides its lines; raises InvalidRequest."""
    try:
        return Submission(**about)
    except ValidationError as error:
        raise InvalidRequest.from_validation(error) from None


def new_job(about: Submission, settings: Settings, now_ms: int, *, job_id: str | None = None) -> NewJob:
    """Raises WrongDeclaration if callbacks to this `on_end` target are not allowed."""
    check_on_end(about.on_end, settings)
    return NewJob(
        job_id or uuid.uuid4().hex,
        about.namespace,
        name=about.name,
        tenant=about.tenant,
        weight=about.weight,
        deadline_at_ms=None if about.deadline_s is None else now_ms + round(about.deadline_s * 1_000),
        on_end=about.on_end,
    )


def submit_lines(
    store: Jobs, new: NewJob, lines: Iterator[JobLine], read: InputStats, *, now_ms: Callable[[], int]
) -> None:
    """Store the lines, count them in `read`, and let the job wait for its turn.

    Whatever is raised, the job ends as failed.  Raises InvalidJob for wrong lines that refuse the job, and for an input
    without lines.
    """
    segments = 0
    insist(lambda: store.create(new, now_ms=now_ms()))
    try:
        for message in messages(read.passed(lines)):
            numbered = {
                number: [Line(*line) for line in part] for number, part in enumerate(message, start=segments)
            }
            insist(partial(store.add, new.job_id, numbered, now_ms=now_ms()))
            segments += len(message)
        read.check()
        insist(lambda: store.begin(new.job_id, segments=segments, now_ms=now_ms()))
    except BaseException as error:
        # The job may have been cancelled meanwhile, or the database may be away.
        with suppress(ServiceError):
            # Errors of servers and files have addresses and folders, which the readers of a job must not learn.
            is_server_error = isinstance(error, JobsUnavailable | OSError | sqlite3.Error)
            reason = "the lines could not be stored" if is_server_error else str(error)
            reason = reason or "the submission was interrupted"
            insist(lambda: store.refuse(new.job_id, reason, now_ms=now_ms()))
        raise


def insist(do: Callable[[], Made]) -> Made:
    """Do it again while the database is locked or away, for up to INSIST_S."""
    return retried(do, JobsUnavailable, for_s=INSIST_S, pause_s=lambda _: 0.2)
