"""A task that raises SystemExit ends a worker with the solo pool, with an error of its own."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import celery
import kombu
from celery import Celery

URL = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
NAME = Path(__file__).stem
app = Celery(NAME, broker=URL, backend=URL)
app.conf.update(task_default_queue=NAME)
WORKER = [sys.executable, "-m", "celery", "-q", "-A", NAME, "worker", "-l", "CRITICAL", "-P", "solo"]


@app.task
def part() -> int:
    return 1


@app.task
def leaves() -> None:
    raise SystemExit(3)


if __name__ == "__main__":
    sys.stdout.write(f"celery {celery.__version__}, kombu {kombu.__version__}\n")
    worker = subprocess.Popen(WORKER, cwd=Path(__file__).parent, stderr=subprocess.PIPE, text=True)
    part.delay().get(timeout=30)
    result = leaves.delay()
    with suppress(subprocess.TimeoutExpired):
        worker.wait(timeout=30)
    ended = worker.poll()
    worker.terminate()
    said = [line for line in worker.communicate()[1].splitlines() if "Error" in line]
    sys.stdout.write(
        "expected: the task fails with WorkerLostError, as with the prefork pool, and the worker goes on\n"
    )
    sys.stdout.write(
        f"saw:      the task is {result.state}, the worker {'goes on' if ended is None else 'ended'}: {said[-1:]}\n"
    )
    result.forget()
