"""Bulk jobs: a file of questions that the service answers while nobody waits.  `Chorale(...).jobs` is a `Jobs`."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import IO, Any, Literal, cast

from pydantic import ValidationError
from pydantic_core import to_json
from redis import Redis

from chorale_client.errors import ChoraleError, InvalidJob, InvalidRequest, NotEnded
from chorale_client.jobs.input_stats import InputStats, messages
from chorale_client.jobs.job import Job, Submission
from chorale_client.jobs.job_line import JobLine
from chorale_client.jobs.lines import defaults_in, form_of, read_lines
from chorale_client.service_calls import ServiceCall

PATIENCE_S = 60.0
"""How long a submission, or a reader of results, bridges a sweeper or a database that is away."""
POLL_S = 0.2
LONGEST_POLL_S = 2.0

Lines = str | PathLike[str] | IO[bytes] | Iterable[str | Mapping[str, Any]]


class Jobs:
    """Every method raises ServiceUnavailable if Redis, the sweeper process or its database does not answer."""

    def __init__(self, redis: Redis, *, socket_timeout_s: float) -> None:
        self._redis = redis
        self._socket_timeout_s = socket_timeout_s

    def submit(
        self,
        lines: Lines,
        *,
        namespace: str,
        form: Literal["jsonl", "csv"] | None = None,
        name: str = "",
        tenant: str = "",
        weight: float = 1.0,
        deadline_s: float | None = None,
        on_error: Literal["refuse", "skip"] = "refuse",
        on_end: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> JobHandle:
        """Check and hand in all lines; returns when the job waits for its turn.

        `lines` is the path of a file, a stream of bytes, or questions: texts, or the objects of a line.  A stream has
        the format `form`, by default JSON lines; the format of a file is that of its name.  `options` are those of a
        request, for all lines.  With `on_error="skip"` a wrong line stays in the job with the status `refused`.

        Raises InvalidJob, with the numbers of the wrong lines, and QueueFull.  Whatever is raised has the job's id as a note
        (`__notes__`), if the job was created.
        """
        try:
            description = Submission(
                namespace=namespace,
                name=name or (Path(lines).name if isinstance(lines, str | PathLike) else ""),
                tenant=tenant,
                weight=weight,
                deadline_s=deadline_s,
                on_end=None if on_end is None else dict(on_end),
            )
            with _opened(lines, form) as (stream, its_form):
                checked = read_lines(stream, form=its_form, defaults=defaults_in(namespace, options or {}))
                return self._submit(checked, description, refuses=on_error != "skip")
        except ValidationError as error:
            raise InvalidJob(str(InvalidRequest.from_validation(error))) from None
        except InvalidJob:
            raise
        except InvalidRequest as error:
            raise InvalidJob(str(error)) from None

    def _submit(self, checked: Iterator[JobLine], submission: Submission, *, refuses: bool) -> JobHandle:
        job_id = uuid.uuid4().hex
        about = submission.model_dump(mode="json", exclude_defaults=True)
        self._call("create", job_id=job_id, about=about, for_s=PATIENCE_S)
        try:
            read = InputStats(refuses)
            segments = 0
            adding: ServiceCall | None = None
            for message in messages(read.passed(checked)):
                # The sweeper stores a message while the next one is read.
                if adding is not None:
                    adding.result(for_s=PATIENCE_S)
                adding = self._sent("add", job_id=job_id, first=segments, segments=message)
                segments += len(message)
            if adding is not None:
                adding.result(for_s=PATIENCE_S)
            read.check()
            self._call("begin", job_id=job_id, segments=segments, for_s=PATIENCE_S)
        except BaseException as error:
            raised = InvalidJob(str(error)) if type(error) is InvalidRequest else error
            raised.add_note(f"job {job_id}")
            is_ours = isinstance(error, ChoraleError)
            reason = str(error) if is_ours else f"the submission stopped: {error!r:.500}"
            with suppress(ChoraleError):
                self._call("refuse", job_id=job_id, reason=reason, for_s=self._socket_timeout_s)
            raise raised from error.__cause__
        return JobHandle(self, job_id)

    def get(self, job_id: str) -> Job:
        """Raises NoSuchJob."""
        return Job.model_validate(self._call("get", job_id=job_id))

    def last(self, count: int = 20) -> Sequence[Job]:
        """The newest jobs, newest first."""
        return [Job.model_validate(job) for job in self._call("last", count=count)]

    def pause(self, job_id: str) -> Job:
        """Segments that workers have are still answered.  Raises NoSuchJob, WrongJobState."""
        return Job.model_validate(self._call("pause", job_id=job_id))

    def resume(self, job_id: str) -> Job:
        """Raises NoSuchJob, WrongJobState."""
        return Job.model_validate(self._call("resume", job_id=job_id))

    def cancel(self, job_id: str) -> Job:
        """The job ends when the segments that workers have are answered.  Raises NoSuchJob, WrongJobState."""
        return Job.model_validate(self._call("cancel", job_id=job_id))

    def retry(
        self,
        job_id: str,
        only: Sequence[Literal["failed", "expired", "degraded"]] = ("failed", "expired"),
        *,
        deadline_s: float | None = None,
    ) -> int:
        """Answer the lines of an ended job again that have one of these statuses; `expired` includes cancelled lines.

        Returns the number of lines.  Raises NoSuchJob, WrongJobState: also if there is no such line, or if the reply to a
        first attempt was lost.
        """
        return int(self._call("retry", job_id=job_id, only=list(only), deadline_s=deadline_s))

    def results(self, job_id: str, *, after: int = 0, wait: bool = False) -> Iterator[dict[str, Any]]:
        """The result lines in input order from the line after number `after`, as far as they are there without a gap.

        `line` of the last one is the next `after`.  With `wait`, goes on until the job has ended.  Raises NoSuchJob.
        """
        pause_s = POLL_S
        while True:
            page = self._call("results", job_id=job_id, after=after, for_s=PATIENCE_S)
            yield from page["lines"]
            if page["lines"]:
                after, pause_s = page["lines"][-1]["line"], POLL_S
            elif page["is_ended"] or not wait:
                return
            else:
                time.sleep(pause_s)
                pause_s = min(LONGEST_POLL_S, 1.5 * pause_s)

    def _sent(self, do: str, **arguments: Any) -> ServiceCall:
        return ServiceCall(self._redis, do, socket_timeout_s=self._socket_timeout_s, **arguments)

    def _call(self, do: str, *, for_s: float | None = None, **arguments: Any) -> Any:
        return self._sent(do, **arguments).result(for_s=for_s)


class JobHandle:
    """One job."""

    def __init__(self, jobs: Jobs, job_id: str) -> None:
        self._jobs = jobs
        self.job_id = job_id

    def get(self) -> Job:
        return self._jobs.get(self.job_id)

    def results(self, *, after: int = 0, wait: bool = False) -> Iterator[dict[str, Any]]:
        """As `Jobs.results`."""
        return self._jobs.results(self.job_id, after=after, wait=wait)

    def wait(self, timeout_s: float) -> Job:
        """The job when it has ended.  Raises NotEnded after `timeout_s` seconds."""
        ends_at_s = time.monotonic() + timeout_s
        pause_s = POLL_S
        while not (job := self.get()).is_ended:
            remaining_s = ends_at_s - time.monotonic()
            if remaining_s <= 0:
                raise NotEnded(
                    f"job {self.job_id} is {job.state}: {job.done:,} of {job.total:,} lines are done"
                )
            time.sleep(min(pause_s, remaining_s))
            pause_s = min(LONGEST_POLL_S, 1.5 * pause_s)
        return job

    def pause(self) -> Job:
        return self._jobs.pause(self.job_id)

    def resume(self) -> Job:
        return self._jobs.resume(self.job_id)

    def cancel(self) -> Job:
        return self._jobs.cancel(self.job_id)


@contextmanager
def _opened(lines: Lines, form: str | None) -> Iterator[tuple[IO[bytes], str]]:
    if isinstance(lines, str | PathLike):
        its_form = form_of(str(lines), form)
        try:
            opened = Path(lines).open("rb")  # noqa: SIM115  # below, after this error
        except OSError as error:
            raise InvalidJob(f"{lines}: {error.strerror}") from None
        with opened:
            yield opened, its_form
    elif hasattr(lines, "read"):
        stream = cast("IO[bytes]", lines)
        if isinstance(stream.read(0), str):
            raise InvalidJob("the stream gives text; open the file in binary mode")
        yield stream, form_of("-", form)
    else:
        yield cast("IO[bytes]", _JsonLines(lines)), "jsonl"


class _JsonLines:
    """Questions, one by one, as a file of JSON lines."""

    def __init__(self, questions: Iterable[str | Mapping[str, Any]]) -> None:
        self._questions = iter(questions)
        self._rest = b""

    def readline(self, size: int) -> bytes:
        if not self._rest and (question := next(self._questions, None)) is not None:
            try:
                line = to_json({"text": question} if isinstance(question, str) else dict(question))
            except (TypeError, ValueError):
                line = ascii(question).encode()  # the reader says what is wrong with it
            self._rest = line + b"\n"
        head, self._rest = self._rest[:size], self._rest[size:]
        return head
