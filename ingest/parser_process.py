"""The process in which files are parsed: it is ended where a file takes too much time, memory or room.

It has an open file's descriptor and not its name, the limits of `ReadLimits`, and no variable of the environment that may
be a secret.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from ingest.parsing import OUT_OF_MEMORY
from ingest.raw_documents import Fault, Heading, ReadLimits, ReadOptions, Record, Unreadable
from models.errors import ServiceError
from models.not_indexed import NotIndexed

_ROOT = Path(__file__).parents[1]
_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from ingest.parsing import main; main()"
_PASSED_ON = frozenset({"PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "TMPDIR"})
_PASSED_ON_BEGINNINGS = ("LC_", "PYTHON", "DYLD_")

START_S = 60.0
"""Maximum seconds for the start of the process, unless the limit of a file is longer."""
_CHUNK = 1 << 18


class ParserProcess:
    """Parses one file after the other; starts when it is first needed, and again after a file that ended it."""

    def __init__(self, limits: ReadLimits) -> None:
        self._limits = limits
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket
        self._arrived = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def parse(
        self, descriptor: int, name: str, reader: str, options: ReadOptions
    ) -> Iterator[Record | Fault]:
        """What `ingest.formats.<reader>` finds in an open file, which is closed.  Raises Unreadable, and ServiceError."""
        is_done = False
        try:
            self._send({"stem": Path(name).stem, "reader": reader, "options": asdict(options)}, descriptor)
            while "end" not in (message := self._answer()):
                if "text" in message:
                    headings = [Heading(*heading) for heading in message.pop("headings")]
                    yield Record(**message, headings=headings)
                elif "why" in message:
                    yield Fault(NotIndexed(message["reason"]), message["why"], message["line"])
            is_done = True
            if message["end"]:
                raise Unreadable(NotIndexed(message["reason"]), message["end"])
        finally:
            if not is_done:
                self._end()

    def _send(self, what: Mapping[str, Any], descriptor: int) -> None:
        try:
            if self._process is None:
                self._start()
            with suppress(ConnectionError):  # `_answer` reports how the process ended
                socket.send_fds(self._socket, [json.dumps(what).encode() + b"\n"], [descriptor])
        finally:
            os.close(descriptor)

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-c", _PROGRAM, str(_ROOT), json.dumps(asdict(self._limits))],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={name: value for name, value in os.environ.items() if _is_passed_on(name)},
                )
            except OSError as error:
                ours.close()
                raise ServiceError(f"the process that parses files does not start: {error}") from None
        self._socket = ours
        # A busy machine takes seconds to start Python, which are none of the file's.
        self._answer(within_s=max(START_S, self._limits.time_s))

    def _answer(self, *, within_s: float | None = None) -> dict[str, Any]:
        """The next line; raises Unreadable where the process exceeds a limit, or ends."""
        ends_s = time.monotonic() + (within_s or self._limits.time_s)
        most, searched = self._limits.output_mb * 1_000_000, 0
        while (end := self._arrived.find(b"\n", searched)) < 0:
            if (searched := len(self._arrived)) > most:
                raise Unreadable(
                    NotIndexed.OVER_LIMIT, f"its text has more than {self._limits.output_mb:g} MB"
                )
            try:
                self._socket.settimeout(max(ends_s - time.monotonic(), 0.001))
                chunk = self._socket.recv(_CHUNK)
            except TimeoutError:
                why = f"it takes more than {self._limits.time_s:g} s to read"
                raise Unreadable(NotIndexed.OVER_LIMIT, why) from None
            except ConnectionError:
                chunk = b""
            if not chunk:
                raise Unreadable(NotIndexed.OVER_LIMIT, self._why_it_ended())
            self._arrived += chunk
        line = bytes(self._arrived[:end])
        del self._arrived[: end + 1]
        message: dict[str, Any] = json.loads(line)
        return message

    def _why_it_ended(self) -> str:
        assert self._process is not None
        code = self._process.wait()
        if code == OUT_OF_MEMORY:
            return f"it takes more than {self._limits.memory_mb:g} MB of memory to read"
        if code == -signal.SIGXCPU:
            return f"it takes more than {self._limits.time_s:g} s to read"
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return f"its parser ended with {how}, perhaps for lack of memory"

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            self._socket.close()
            self._arrived.clear()


def _is_passed_on(name: str) -> bool:
    # Whole names, since LANGCHAIN_API_KEY begins with LANG.
    return name in _PASSED_ON or name.startswith(_PASSED_ON_BEGINNINGS)
