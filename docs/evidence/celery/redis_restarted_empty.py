"""A chord waits for ever where Redis is restarted without persistence, though its parts live on in the worker.

It starts a `redis-server` of its own, on the port OWN_PORT, and uses no other.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from celery import Celery, __version__, chord
from celery.canvas import Signature
from redis import Redis
from redis.exceptions import RedisError

PORT = os.environ.get("OWN_PORT", "6390")
URL = f"redis://127.0.0.1:{PORT}/0"
NAME = Path(__file__).stem
app = Celery(NAME, broker=URL, backend=URL)
app.conf.update(task_default_queue=NAME)
WORKER = [sys.executable, "-m", "celery", "-q", "-A", NAME, "worker", "-l", "CRITICAL", "-c", "2"]
SERVER = ["redis-server", "--port", PORT, "--bind", "127.0.0.1", "--save", "", "--logfile", os.devnull]
redis = Redis.from_url(URL)


@app.task
def part(duration_s: float) -> int:
    redis.incr(f"{NAME}:begun")
    time.sleep(duration_s)
    return 1


@app.task
def joined(counts: list[int]) -> int:
    return sum(counts)


def start_server() -> subprocess.Popen[bytes]:
    server = subprocess.Popen(SERVER)
    while True:
        try:
            redis.ping()
            return server
        except RedisError:
            time.sleep(0.05)


def ends(asked: Signature, wait_s: float = 8) -> str:
    server = start_server()
    worker = subprocess.Popen(WORKER, cwd=Path(__file__).parent, stderr=subprocess.DEVNULL)
    result = asked.apply_async()
    try:
        while int(redis.get(f"{NAME}:begun") or 0) < 2:
            time.sleep(0.01)
        server.kill()
        server.wait()
        server = start_server()
        after = part.delay(0).get(timeout=30)
        until = time.monotonic() + wait_s
        while not result.ready():
            if time.monotonic() > until:
                return f"{result.state} after {wait_s:g} s, and for ever; a task sent later gave {after}"
            time.sleep(0.1)
        return f"{result.state}: {result.result!r}"
    finally:
        result.forget()
        worker.terminate()
        worker.wait()
        server.kill()
        server.wait()


if __name__ == "__main__":
    sys.stdout.write(f"celery {__version__}\n")
    sys.stdout.write("expected: FAILURE with ChordError, since each part knows its chord\n")
    sys.stdout.write(f"saw:      {ends(chord([part.s(5), part.s(5)], joined.s()))}\n")
