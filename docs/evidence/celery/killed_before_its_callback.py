"""A chord waits for ever where the process that counted the last part is killed before it publishes the callback."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from celery import Celery, __version__, chord
from celery.canvas import Signature

URL = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
NAME = Path(__file__).stem
app = Celery(NAME, broker=URL, backend=URL)
app.conf.update(task_default_queue=NAME, task_acks_late=True, task_reject_on_worker_lost=True)
WORKER = [sys.executable, "-m", "celery", "-q", "-A", NAME, "worker", "-l", "CRITICAL", "-c", "2"]


def die(*_args: object, **_kwargs: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@app.task
def part() -> int:
    # The out-of-memory killer comes by after the claim on the callback, before its publication.
    app.amqp._retry_publish = die
    return 1


@app.task
def joined(counts: list[int]) -> int:
    return sum(counts)


def ends(asked: Signature, wait_s: float = 15) -> str:
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
        sys.stdout.write(
            "expected: SUCCESS with 2, since the message is requeued; or FAILURE with ChordError\n"
        )
        sys.stdout.write(f"saw:      {ends(chord([part.s(), part.s()], joined.s()))}\n")
    finally:
        worker.terminate()
        worker.wait()
