"""pip in few lines: `python -m deploy.install_packages` with the arguments of `pip install`.

On a terminal the packages are one bar with their number and size.  Elsewhere each package of a megabyte or more is a line, and while
pip prints nothing, a line says every few seconds what it is doing.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

PIP = ("-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--no-deps", "--no-compile")
QUIET_S = 5.0
TICK_S = 1.0
"""A bar counts the seconds."""
WIDTH = 20

_COLLECTING = re.compile(r"(?:Collecting|Obtaining) ([^ ;]+)")
_SIZED = re.compile(r"(?:Downloading|Using cached) ([^-\s]+-[^-\s]+)-\S+ \(([\d.]+) ([kMG])B\)")
_BUILDING = re.compile(r"Building (?:editable|wheel) for (\S+)")
_UNPACKING = re.compile(r"Installing collected packages: (.+)")
_MEGABYTES = {"k": 0.001, "M": 1.0, "G": 1000.0}


@dataclass(slots=True)
class Installing:
    """How far pip is, from the lines that it prints."""

    packages: int
    """How many there are at most: a lock has some that only other systems need."""
    collected: int = 0
    megabytes: float = 0.0
    doing: str = "starting"
    began_s: float = field(default_factory=time.monotonic)

    def read(self, line: str) -> str | None:
        """Note a line of pip; returns what is worth a line of its own."""
        if package := _COLLECTING.match(line):
            self.collected += 1
            self.doing = f"asking for {package[1]}"
        elif wheel := _SIZED.match(line):
            size = float(wheel[2]) * _MEGABYTES[wheel[3]]
            self.megabytes += size
            self.doing = f"{wheel[1]} ({size:.1f} MB)"
            return self.doing if size >= 1 else None
        elif package := _BUILDING.match(line):
            self.doing = f"building {package[1]} from its source"
        elif packages := _UNPACKING.match(line):
            self.collected = self.packages = len(packages[1].split(", "))
            self.doing = "unpacking"
        return None

    def __str__(self) -> str:
        count = f"{self.collected} of {self.packages}" if self.packages else f"{self.collected}"
        return f"{count} packages · {self.megabytes:.0f} MB · {time.monotonic() - self.began_s:.0f} s · {self.doing}"

    def bar(self) -> str:
        done = WIDTH * min(self.collected, self.packages) // max(self.packages, 1)
        return f"\r\x1b[K  {'━' * done}{'─' * (WIDTH - done)} {self}"[:110]


def install(command: list[str], *, quiet_s: float = QUIET_S, is_terminal: bool = False) -> int:
    """Run a command that prints what pip prints, and return its exit code."""
    locks = [Path(lock) for flag, lock in pairwise(command) if flag == "-r"]
    state = Installing(sum(len(re.findall(r"(?m)^[\w.-]+\S*==", lock.read_text("utf-8"))) for lock in locks))
    lines: SimpleQueue[str | None] = SimpleQueue()

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as pip:

        def read() -> None:
            for line in pip.stdout or ():
                lines.put(line.strip())
            lines.put(None)

        Thread(target=read, daemon=True).start()
        while True:
            try:
                line = lines.get(timeout=TICK_S if is_terminal else quiet_s)
            except Empty:
                _print(state.bar() if is_terminal else f"  {state}\n")
                continue
            if line is None:
                _print("\r\x1b[K" if is_terminal else "")
                return pip.wait()
            if is_terminal:
                state.read(line)
                _print(state.bar())
            elif said := state.read(line):
                _print(f"  {said}\n")


def _print(what: str) -> None:
    sys.stdout.write(what)
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        sys.exit(install([sys.executable, *PIP, *sys.argv[1:]], is_terminal=sys.stdout.isatty()))
    except KeyboardInterrupt:
        sys.exit(130)
