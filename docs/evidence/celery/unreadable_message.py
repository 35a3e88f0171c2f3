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


SENT = {
    "no JSON": b"hello",
    "JSON nested 10,000 levels deep": b"[" * 10_000 + b"]" * 10_000,
    "a JSON text": b'"hello"',
    "a body of another shape": message(b'{"a": 1}'),
    "a task name that is a list": message(b"[[], {}, {}]", task=["part"]),
    "a time limit that is a text": message(b"[[], {}, {}]", timelimit="soon"),
}


def main() -> None:
    """Each message goes to a worker with a queue of its own."""
    queues = {what: f"{NAME}-{number}" for number, what in enumerate(SENT)}
    workers = {
        what: subprocess.Popen(
            [*WORKER, "-Q", queue, "-n", queue], cwd=Path(__file__).parent, stderr=subprocess.DEVNULL
        )
        for what, queue in queues.items()
    }
    try:
        for what, sent in SENT.items():
            part.apply_async(queue=queues[what]).get(timeout=60)
            Redis.from_url(URL).lpush(queues[what], sent)
        for what, worker in workers.items():
            with suppress(subprocess.TimeoutExpired):
                worker.wait(timeout=15)
            sys.stdout.write(f"{what}\n  expected: it is logged and dropped, the worker goes on\n")
            ended = worker.poll()
            sys.stdout.write(
                f"  saw:      the worker {'goes on' if ended is None else f'ended with {ended}'}\n"
            )
    finally:
        for worker in workers.values():
            worker.terminate()
            worker.wait()


if __name__ == "__main__":
    sys.stdout.write(f"celery {celery.__version__}, kombu {kombu.__version__}\n")
    main()
