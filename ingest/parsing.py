"""What runs in the process of `ingest.parser_process`: parses the files that are handed to it, until nobody hands in any."""

from __future__ import annotations

import codecs
import io
import json
import math
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingest.clean import cleaned
from ingest.headings import TOO_MANY_HEADINGS, has_too_many_headings, with_headings
from ingest.raw_documents import Fault, ReadLimits, ReadOptions, Unreadable
from models.not_indexed import NotIndexed

if TYPE_CHECKING:
    import psutil

OUT_OF_MEMORY = 77
"""The exit code of a process that reached its limit of memory."""
_MORE_S = 5
"""Seconds after which the process ends by itself, should nobody have ended it at its limit of time."""
_POLL_S = 0.02
_BLOCK = 1 << 18


def main() -> None:
    """Standard input is a socket: lines that describe a file, each with its descriptor, come in; records go out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    limits = ReadLimits(**json.loads(sys.argv[2]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _limit_memory(round(limits.memory_mb * 1_000_000))
    try:
        with socket.socket(fileno=0) as caller:
            caller.sendall(b"{}\n")  # ready
            for request, descriptor in _handed_in(caller):
                _limit_time(limits.time_s)
                with io.FileIO(descriptor) as raw:
                    for message in _parsed(raw, **request):
                        caller.sendall(json.dumps(message).encode() + b"\n")
                        _limit_time(limits.time_s)
    except MemoryError:
        os._exit(OUT_OF_MEMORY)


def _limit_memory(more_bytes: int) -> None:
    """Only Linux counts a process's own memory exactly, and lets no process have more; elsewhere a thread measures it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        import psutil

        # The maximum of `getrusage` would include the memory of the parent process.
        process = psutil.Process()
        most = process.memory_info().rss + more_bytes
        threading.Thread(target=_end_beyond, args=(process, most), daemon=True).start()
        return
    most = pages * resource.getpagesize() + more_bytes
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _end_beyond(process: psutil.Process, most_bytes: int) -> None:
    while process.memory_info().rss <= most_bytes:
        time.sleep(_POLL_S)
    os._exit(OUT_OF_MEMORY)


def _limit_time(more_s: float) -> None:
    """The caller ends this process at its limit; a process whose caller was killed ends by itself."""
    spent_s = time.process_time()
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(spent_s + more_s) + _MORE_S, hard))


def _handed_in(caller: socket.socket) -> Iterator[tuple[dict[str, Any], int]]:
    arrived, descriptors = b"", list[int]()
    while True:
        chunk, received, _, _ = socket.recv_fds(caller, 65_536, 1)
        if not chunk:
            return
        arrived, descriptors = arrived + chunk, descriptors + received
        if arrived.endswith(b"\n"):
            yield json.loads(arrived), descriptors[0]
            arrived, descriptors = b"", []


def _parsed(
    raw: io.FileIO, stem: str, reader: str, options: Mapping[str, Any]
) -> Iterator[Mapping[str, Any]]:
    """Records and faults, and `end` with the reason where the file cannot be read, or not further."""
    reason, why = NotIndexed.MALFORMED, ""
    try:
        read = import_module(f"ingest.formats.{reader}").read
        stream = io.BufferedReader(_UpToItsSize(raw), _BLOCK)
        for result in read(stream, ReadOptions(**options)):
            if isinstance(result, Fault):
                yield asdict(result)
                continue
            record = with_headings(cleaned(result), stem)
            if not record.text and record.line is None and _has_content(raw):
                raise Unreadable(NotIndexed.NO_TEXT, "no text in it")
            yield asdict(record)
            if record.markup == "markdown" and has_too_many_headings(record.text):
                yield asdict(Fault(NotIndexed.HEADINGS, TOO_MANY_HEADINGS, record.line))
    except Unreadable as error:
        reason, why = error.reason, str(error)
    except MemoryError:
        raise
    # Parsers raise any exception for a malformed file; reading must continue.
    except Exception as error:
        detail = getattr(error, "strerror", None) or str(error)[:200] or "its parser failed"
        why = f"cannot be read: {detail}"
    yield {"end": why, "reason": reason}


def _has_content(raw: io.FileIO) -> bool:
    return bool(os.pread(raw.fileno(), _BLOCK, 0).removeprefix(codecs.BOM_UTF8).strip())


class _UpToItsSize(io.RawIOBase):
    """A file up to the size that it has now, so that reading ends although another process goes on writing to it."""

    def __init__(self, raw: io.FileIO) -> None:
        self._raw = raw
        self._remaining_bytes = os.fstat(raw.fileno()).st_size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = self._raw.readinto(memoryview(buffer)[: self._remaining_bytes]) or 0
        self._remaining_bytes -= size
        return size
