"""A chord waits for ever where its size is gone from the backend: evicted by a full Redis, or flushed."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from celery import Celery, __version__, chord
from celery.canvas import Signature
from redis import Redis

URL = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
NAME = Path(__file__).stem
app = Celery(NAME, broker=URL, backend=URL)
app.conf.update(task_default_queue=NAME)
WORKER = [sys.executable, "-m", "celery", "-q", "-A", NAME, "worker", "-l", "CRITICAL", "-c", "2"]
redis = Redis.from_url(URL)


@app.task
def part() -> int:
    redis.incr(f"{NAME}:begun")
    time.sleep(1)
    return 1


@app.task
def joined(counts: list[int]) -> int:
    return sum(counts)


def evict() -> None:
    # What `maxmemory-policy allkeys-lru` may do, with the one key that matters.
    redis.delete(*redis.scan_iter("celery-taskset-meta-*.s"))


def ends(asked: Signature, is_lost: Callable[[], object], wait_s: float = 5) -> str:
    redis.delete(f"{NAME}:begun")
    result = asked.apply_async()
    until = time.monotonic() + wait_s
    try:
        while int(redis.get(f"{NAME}:begun") or 0) < 2:
            time.sleep(0.01)
        is_lost()
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
        for what, is_lost in {"evicted": evict, "flushed": redis.flushdb}.items():
            sys.stdout.write(f"expected: FAILURE with ChordError, since each part knows its chord ({what})\n")
            sys.stdout.write(f"saw:      {ends(chord([part.s(), part.s()], joined.s()), is_lost)}\n")
    finally:
        worker.terminate()
        worker.wait()
