"""A message on a Redis queue that no Celery wrote ends the worker."""

import json
import os
import subprocess
import sys
from base64 import b64encode
from contextlib import suppress
from pathlib import Path

import celery
import kombu
from celery import Celery
from redis import Redis

URL = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
NAME = Path(__file__).stem
app = Celery(NAME, broker=URL, backend=URL)
app.conf.update(task_default_queue=NAME)
WORKER = [sys.executable, "-m", "celery", "-q", "-A", NAME, "worker", "-l", "CRITICAL", "-P", "solo"]


@app.task
def part() -> int:
    return 1


def message(body: bytes, **headers: object) -> bytes:
    usual = {"lang": "py", "task": part.name, "id": "1", **headers}
    properties = {
        "delivery_info": {"exchange": "", "routing_key": NAME},
        "body_encoding": "base64",
        "delivery_tag": "1",
    }
    return json.dumps(
        {
            "body": b64encode(body).decode(),
            "content-type": "application/json",
            "content-encoding": "utf-8",
            "headers": {name: value for name, value in usual.items() if value is not None},
            "properties": properties,
        }
    ).encode()


def lives(what: str, message: bytes) -> None:
    Redis.from_url(URL).delete(NAME, "unacked", "unacked_index")
    worker = subprocess.Popen(WORKER, cwd=Path(__file__).parent, stderr=subprocess.DEVNULL)
    try:
        part.delay().get(timeout=30)
        Redis.from_url(URL).lpush(NAME, message)
        with suppress(subprocess.TimeoutExpired):
            worker.wait(timeout=15)
        sys.stdout.write(f"{what}\n  expected: it is logged and dropped, the worker goes on\n")
        ended = worker.poll()
        sys.stdout.write(f"  saw:      the worker {'goes on' if ended is None else f'ended with {ended}'}\n")
    finally:
        worker.terminate()
        worker.wait()


if __name__ == "__main__":
    sys.stdout.write(f"celery {celery.__version__}, kombu {kombu.__version__}\n")
    lives("no JSON", b"hello")
    lives("JSON nested 10,000 levels deep", b"[" * 10_000 + b"]" * 10_000)
    lives("a JSON text", b'"hello"')
    lives("a body of another shape", message(b'{"a": 1}'))
    lives("a task name that is a list", message(b"[[], {}, {}]", task=["part"]))
    lives("a time limit that is a text", message(b"[[], {}, {}]", timelimit="soon"))
