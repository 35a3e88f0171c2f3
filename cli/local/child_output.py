"""Writes the lines of several processes to one stream, each marked with its process."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

from config.visible_text import visible, visible_json

_COLOURS = (36, 33, 35, 32, 34, 96, 93, 95, 92, 94)
"""ANSI colours: cyan, yellow, magenta, green, blue, then the bright ones; red is reserved for errors."""


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
            said = json.loads(text)
        except (ValueError, RecursionError):
            said = None
        fields = said if isinstance(said, dict) else {"line": text}
        self._write(visible_json(json.dumps({"process": name, **fields}, ensure_ascii=False)) + "\n")
