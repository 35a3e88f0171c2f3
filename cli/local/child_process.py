"""A child of the supervisor: its process, which has a session of its own and dies with the supervisor, and its lines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TextIO

from config.visible_text import visible, visible_json

Output = Callable[[str, bytes], None]
"""Takes a child's name and one line of its output, without the newline; empty lines are left out."""

_LINE_LIMIT = 65_536
_LAST_LINES_S = 1.0
WRAPPER = Path(__file__).with_name("child_wrapper.py")
_MODE = "exec" if sys.platform == "linux" else "watch"
_COLOURS = (36, 33, 35, 32, 34, 96, 93, 95, 92, 94)
"""ANSI colours: cyan, yellow, magenta, green, blue, then the bright ones; red is reserved for errors."""


@dataclass(frozen=True, slots=True)
class Child:
    """A command to run; `env` is added to the supervisor's own environment."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    level: int = 1
    """Children of level 0 start first.  When they take messages, all others start side by side.  The highest level stops first."""
    beats: bool = True
    """Whether it has a heartbeat; a child without one is ready as soon as it runs, and never counts as hung."""
    is_needed: bool = False
    """Whether the supervisor stops if this child ends before it has served once.  Any other child is started again."""


@dataclass(slots=True)
class Forked:
    """The part of `subprocess.Popen` that the supervisor uses, for a child that another process has forked (template.py)."""

    pid: int
    stdout: IO[bytes]
    returncode: int | None = None

    def poll(self) -> int | None:
        return self._wait(os.WNOHANG)

    def wait(self) -> int | None:
        return self._wait(0)

    def _wait(self, options: int) -> int | None:
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, options)
            self.returncode = os.waitstatus_to_exitcode(status) if ended else None
        return self.returncode


class ChildProcess:
    """One run of a child: `forked`, or a new process.  Only the supervisor's own thread may make it (see child_wrapper.py)."""

    def __init__(
        self, child: Child, output: Output, *, mode: str = _MODE, forked: Forked | None = None
    ) -> None:
        self._process = forked or subprocess.Popen(
            [sys.executable, "-I", "-S", str(WRAPPER), mode, str(os.getpid()), *child.argv],
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

    def terminate(self) -> None:
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


class _Lines:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def _write(self, text: str) -> None:
        # An error means that the terminal or the reader of the pipe is gone; the processes go on.
        with self._lock, suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()


class PrefixedLines(_Lines):
    """Writes the name of the process before each line, in colour on a terminal."""

    def __init__(self, stream: TextIO, names: Sequence[str]) -> None:
        super().__init__(stream)
        self._width = max(map(len, names), default=0)
        self._colours = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(names)}
        self._coloured = stream.isatty()

    def __call__(self, name: str, line: bytes) -> None:
        prefix = f"{name:<{self._width}} │"
        if self._coloured:
            prefix = f"\x1b[{self._colours.get(name, 1)}m{prefix}\x1b[0m"
        self._write(f"{prefix} {visible(line.decode(errors='replace'))}\n")


class JsonLines(_Lines):
    """Writes each line as a JSON object with `process`: the child's own JSON object, or any other text as `line`."""

    def __call__(self, name: str, line: bytes) -> None:
        text = line.decode(errors="replace")
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            fields = {"line": text}
        self._write(visible_json(json.dumps({"process": name, **fields}, ensure_ascii=False)) + "\n")
