"""A reader process for tests: prints the inodes of the segments that it has mapped, and what is near, for each line of stdin.

    python vector_reader.py FOLDER SIZE [DIES]

With DIES the process kills itself when a segment is written, but has not its name yet.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from search.engines.embedded import vector_segments
from tests.support.stores.embedded_searches import near
from tests.support.stores.one_engine import embedded_store


def die(*_arguments: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def mapped() -> list[int]:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sorted({int(line.split()[4]) for line in lines if line.endswith(".npy")})


if __name__ == "__main__":
    vector_segments.SIZE = int(sys.argv[2])
    if len(sys.argv) > 3:
        setattr(os, "fsync", die)  # noqa: B010
    store = embedded_store(Path(sys.argv[1]))
    for _ in sys.stdin:
        print(json.dumps([near(store), mapped()]), flush=True)
