"""A child of the supervisor and its process, which has a session of its own and dies with the supervisor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

Output = Callable[[str, bytes], None]
"""Takes a child's name and one line of its output, without the newline; empty lines are left out."""

_LINE_LIMIT = 65_536
_LAST_LINES_S = 1.0
_WRAPPER = Path(__file__).with_name("child_wrapper.py")
_MODE = "exec" if sys.platform == "linux" else "watch"


@dataclass(frozen=True, slots=True)
class Child:
    """A command to run; `env` is added to the supervisor's own environment."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    level: int = 1
    """A level starts when the levels below it are ready; the highest level stops first."""
    beats: bool = True
    """Whether it has a heartbeat; a child without one is ready as soon as it runs, and never counts as hung."""


class ChildProcess:
    """One run of a child.  Only the supervisor's own thread may make it (see child_wrapper.py)."""

    def __init__(self, child: Child, output: Output, *, mode: str = _MODE) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_WRAPPER), mode, str(os.getpid()), *child.argv],
            env={**os.environ, **child.env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.pid = self._process.pid
        assert self._process.stdout is not None
        self._reader = threading.Thread(
            target=_pass_on, args=(child.name, self._process.stdout, output), daemon=True
        )
        self._reader.start()

    @property
    def exit_code(self) -> int | None:
        """None while the process runs; minus the signal's number if a signal ended it."""
        return self._process.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process and to the processes that it started."""
        # macOS answers EPERM for a group of zombies.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def ask_to_end(self) -> None:
        """Send SIGTERM; a stopped process is continued, so that it gets the signal."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the process and those that it started, and read their last lines."""
        self.signal(signal.SIGKILL)
        self._process.wait()
        self._reader.join(_LAST_LINES_S)


def _pass_on(name: str, stream: IO[bytes], output: Output) -> None:
    with stream:
        for line in iter(lambda: stream.readline(_LINE_LIMIT), b""):
            if text := line.rstrip():
                output(name, text)
