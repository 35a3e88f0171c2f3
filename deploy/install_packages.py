"""pip in few lines: `python -m deploy.install_packages` with the arguments of `pip install`.

Each package of a megabyte or more is a line.  While pip prints nothing, a line says every few seconds what it is doing.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from queue import Empty, SimpleQueue
from threading import Thread

PIP = ("-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--no-deps", "--no-compile")
QUIET_S = 5.0

_COLLECTING = re.compile(r"Collecting ([^ ;]+)")
_LARGE = re.compile(r"(?:Downloading|Using cached) ([^-\s]+-[^-\s]+)-\S+ (\([\d.]+ [MG]B\))")
_UNPACKING = re.compile(r"Installing collected packages: (.+)")


def install(command: list[str], *, quiet_s: float = QUIET_S) -> int:
    """Run a command that prints what pip prints, and return its exit code."""
    began_s, doing = time.monotonic(), "starting"
    lines: SimpleQueue[str | None] = SimpleQueue()

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as pip:

        def read() -> None:
            for line in pip.stdout or ():
                lines.put(line.strip())
            lines.put(None)

        Thread(target=read, daemon=True).start()
        while True:
            try:
                line = lines.get(timeout=quiet_s)
            except Empty:
                _print(f"{doing}: {time.monotonic() - began_s:.0f} s so far")
                continue
            if line is None:
                return pip.wait()
            if package := _COLLECTING.match(line):
                doing = package[1]
            elif wheel := _LARGE.match(line):
                doing = " ".join(wheel.groups())
                _print(doing)
            elif packages := _UNPACKING.match(line):
                doing = f"unpacking {len(packages[1].split(', '))} packages"


def _print(what: str) -> None:
    sys.stdout.write(f"  {what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        sys.exit(install([sys.executable, *PIP, *sys.argv[1:]]))
    except KeyboardInterrupt:
        sys.exit(130)
