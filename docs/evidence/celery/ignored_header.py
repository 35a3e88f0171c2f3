"""A chord waits for ever for a part that raises Ignore."""

import os
import subprocess
import sys
import time
from pathlib import Path

from celery import Celery, __version__, chord
from celery.canvas import Signature
from celery.exceptions import Ignore

URL = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
NAME = Path(__file__).stem
app = Celery(NAME, broker=URL, backend=URL)
app.conf.update(task_default_queue=NAME)
WORKER = [sys.executable, "-m", "celery", "-q", "-A", NAME, "worker", "-l", "CRITICAL", "-c", "2"]


@app.task
def part() -> int:
    return 1


@app.task
def joined(counts: list[int]) -> int:
    return sum(counts)


@app.task
def ignored() -> None:
    raise Ignore


def ends(asked: Signature, wait_s: float = 10) -> str:
    result = asked.apply_async()
    until = time.monotonic() + wait_s
    try:
        while not result.ready():
            if time.monotonic() > until:
                return f"{result.state} after {wait_s:g} s, and for ever"
            time.sleep(0.1)
        return f"{result.state}: {result.result!r}"
    finally:
        result.forget()


if __name__ == "__main__":
    worker = subprocess.Popen(WORKER, cwd=Path(__file__).parent, stderr=subprocess.DEVNULL)
    try:
        sys.stdout.write(f"celery {__version__}\n")
        sys.stdout.write("expected: FAILURE with ChordError, or SUCCESS with the other part\n")
        sys.stdout.write(f"saw:      {ends(chord([part.s(), ignored.s()], joined.s()))}\n")
    finally:
        worker.terminate()
        worker.wait()
