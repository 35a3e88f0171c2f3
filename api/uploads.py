"""The body of an upload as a binary file that another thread reads while it arrives."""

from __future__ import annotations

import io
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any, Literal

from anyio import fail_after, from_thread
from chorale_client.job_lines import SUFFIXES
from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect

from api.problems import Problem

log = logging.getLogger(__name__)

SILENT_S = 30.0
"""Seconds without a byte after which an upload is given up."""
LONGEST_S = 3_600.0
"""Seconds in which the whole body must arrive.  The time that the service takes to read it does not count."""
LEAST_BYTES_A_SECOND = 1_000
"""On average, as soon as the service has waited longer than `SILENT_S`."""
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

    def __init__(self, request: Request) -> None:
        self._body: AsyncIterator[bytes] = request.stream()
        self._type, self._parameters = parse_options_header(request.headers.get("content-type", ""))
        self._encoding = request.headers.get("content-encoding", "identity")
        self._chunks: Iterator[bytes] = iter(())
        self._rest = b""
        self._bytes, self._waited_s = 0, 0.0
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
            shown = ", ".join([*MEDIA_TYPES, MULTIPART])
            raise Problem("unsupported_media_type", f"Content-Type: there are: {shown}", field="Content-Type")
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._rest = self._rest or next((chunk for chunk in self._chunks if chunk), b"")
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size

    def _arrived(self) -> Iterator[bytes]:
        while (chunk := from_thread.run(self._next)) is not None:
            yield chunk

    async def _next(self) -> bytes | None:
        asked_s = time.monotonic()
        try:
            with fail_after(SILENT_S):
                chunk = await anext(self._body, None)
        except TimeoutError:
            raise Problem("malformed", f"nothing of the body arrived for {SILENT_S:.0f} s") from None
        except ClientDisconnect:
            log.warning("an upload was cut off after %d bytes", self._bytes)
            raise Problem("malformed", "the upload was cut off") from None
        self._waited_s += time.monotonic() - asked_s
        self._bytes += len(chunk or b"")
        if self._waited_s > LONGEST_S:
            raise Problem("malformed", f"the body took longer than {LONGEST_S:.0f} s")
        if self._waited_s > SILENT_S and self._bytes < LEAST_BYTES_A_SECOND * self._waited_s:
            raise Problem("malformed", f"the body came with less than {LEAST_BYTES_A_SECOND} bytes a second")
        return chunk


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
        with _said_of_forms():
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
        with _said_of_forms():
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
                given = options.get(b"filename", b"").decode("utf-8", "replace").replace("\0", "\ufffd")
                self.filename = PurePath(given).name[:256]
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
def _said_of_forms() -> Iterator[None]:
    try:
        yield
    except FormParserError as error:
        raise Problem("malformed", f"the body is no form: {error}") from None
