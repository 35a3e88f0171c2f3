"""An upload: its body is a binary file that another thread reads while it arrives, and its lines become a job."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import PurePath
from typing import Any, Literal

from anyio import from_thread
from chorale_client.errors import InvalidJob
from chorale_client.jobs.input_stats import InputStats
from chorale_client.jobs.lines import SUFFIXES, defaults_in, read_lines
from chorale_client.request import Request
from fastapi import Request as HttpRequest
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

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
MULTIPART = "multipart/form-data"
FILE_PART = "file"


class Upload(io.RawIOBase):
    """Reads the body from a worker thread of the event loop; `form` and `name` are known after `open`."""

    def __init__(self, request: HttpRequest) -> None:
        self._body = paced(request.stream())
        self._type, self._parameters = parse_options_header(request.headers.get("content-type", ""))
        self._encoding = request.headers.get("content-encoding", "identity")
        self._chunks: Iterator[bytes] = iter(())
        self._rest = b""
        self.form = ""
        self.name = ""

    def open(self) -> io.BufferedReader:
        """Call it in the thread that reads.  Raises Problem for a body that is not read here."""
        media_type = self._type.decode("latin-1").lower()
        if self._encoding.lower() != "identity":
            raise Problem("unsupported_media_type", "Content-Encoding: send the lines uncompressed")
        if media_type == MULTIPART:
            part = _FilePart(self._arrived(), self._parameters.get(b"boundary", b""))
            part.begin()
            self.name, self._chunks = part.filename, part.chunks()
            self.form = MEDIA_TYPES.get(part.media_type) or SUFFIXES.get(
                PurePath(self.name).suffix.lower(), "jsonl"
            )
        elif media_type in MEDIA_TYPES:
            self.form, self._chunks = MEDIA_TYPES[media_type], self._arrived()
        else:
            types = ", ".join([*MEDIA_TYPES, MULTIPART])
            raise Problem("unsupported_media_type", f"Content-Type: there are: {types}", field="Content-Type")
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._rest = self._rest or next((chunk for chunk in self._chunks if chunk), b"")
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size

    def _arrived(self) -> Iterator[bytes]:
        while (chunk := from_thread.run(anext, self._body, None)) is not None:
            yield chunk


class _FilePart:
    """The only part of a form, whose name is `file`."""

    def __init__(self, body: Iterator[bytes], boundary: bytes) -> None:
        self._body = body
        self._data: list[bytes] = []
        self._field, self._value = b"", b""
        self._parts = 0
        self._is_begun = self._is_ended = False
        self.filename = self.media_type = ""
        callbacks: Any = {
            "on_part_begin": self._on_part,
            "on_header_field": self._on_field,
            "on_header_value": self._on_value,
            "on_header_end": self._on_header,
            "on_headers_finished": self._on_headers,
            "on_part_data": self._on_data,
            "on_end": self._on_end,
        }
        with _form_errors_as_problems():
            self._parser = MultipartParser(boundary or b"-", callbacks)

    def begin(self) -> None:
        """Read until the file begins."""
        while not self._is_begun:
            self._feed(next(self._body, None))

    def chunks(self) -> Iterator[bytes]:
        while True:
            data, self._data = self._data, []
            yield from data
            if (chunk := next(self._body, None)) is None:
                break
            self._feed(chunk)
        if not self._is_ended:
            raise Problem("malformed", "the form ends without its closing boundary", field=FILE_PART)

    def _feed(self, chunk: bytes | None) -> None:
        if chunk is None:
            raise Problem("malformed", f"the form has no part `{FILE_PART}`", field=FILE_PART)
        with _form_errors_as_problems():
            self._parser.write(chunk)

    def _on_part(self) -> None:
        self._parts += 1
        if self._parts > 1:
            raise Problem("invalid", "the form has more than one part; options are query parameters")

    def _on_field(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]

    def _on_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header(self) -> None:
        value, options = parse_options_header(self._value)
        match self._field.lower():
            case b"content-disposition":
                if options.get(b"name") != FILE_PART.encode():
                    raise Problem("invalid", f"the file of lines is the part `{FILE_PART}`", field=FILE_PART)
                path = options.get(b"filename", b"").decode("utf-8", "replace").replace("\0", "\ufffd")
                self.filename = PurePath(path).name[:256]
            case b"content-type":
                self.media_type = value.decode("latin-1").lower()
        self._field, self._value = b"", b""

    def _on_headers(self) -> None:
        self._is_begun = True

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        self._data.append(data[start:end])

    def _on_end(self) -> None:
        self._is_ended = True


@contextmanager
def _form_errors_as_problems() -> Iterator[None]:
    try:
        yield
    except FormParserError as error:
        raise Problem("malformed", f"the body is no form: {error}") from None


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
