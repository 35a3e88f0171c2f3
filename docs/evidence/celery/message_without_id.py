"""A message without an id comes back for ever, and the worker reconnects each time."""

import json
import os
import subprocess
import sys
import time
from base64 import b64encode
from pathlib import Path

import celery
import kombu
from celery import Celery
from redis import Redis

URL = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
NAME = Path(__file__).stem
app = Celery(NAME, broker=URL, backend=URL)
app.conf.update(task_default_queue=NAME)
WORKER = [sys.executable, "-m", "celery", "-q", "-A", NAME, "worker", "-l", "WARNING", "-P", "solo"]


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


if __name__ == "__main__":
    sys.stdout.write(f"celery {celery.__version__}, kombu {kombu.__version__}\n")
    Redis.from_url(URL).delete(NAME, "unacked", "unacked_index")
    worker = subprocess.Popen(WORKER, cwd=Path(__file__).parent, stderr=subprocess.PIPE, text=True)
    part.delay().get(timeout=30)
    Redis.from_url(URL).lpush(NAME, message(b"[[], {}, {}]", id=None))
    time.sleep(5)
    worker.kill()
    said = worker.communicate()[1].count("Connection to broker lost")
    sys.stdout.write("expected: it is logged and dropped, the connection stays\n")
    sys.stdout.write(
        f"saw:      the connection was called lost {said} times in 5 s, and the message is still there\n"
    )
    Redis.from_url(URL).delete(NAME, "unacked", "unacked_index")
