"""With `worker_deduplicate_successful_tasks` a chord waits for ever for a part that was stored and not counted."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from celery import Celery, Task, __version__, chord
from celery.canvas import Signature

URL = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
NAME = Path(__file__).stem
app = Celery(NAME, broker=URL, backend=URL)
app.conf.update(
    task_default_queue=NAME,
    task_acks_late=True,
    worker_deduplicate_successful_tasks=True,
    broker_transport_options={
        "visibility_timeout": 3,
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
    },
)
WORKER = [sys.executable, "-m", "celery", "-q", "-A", NAME, "worker", "-l", "CRITICAL", "-P", "solo"]


def die(*_args: object, **_kwargs: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(bind=True)
def part(self: Task, is_killed: bool) -> int:
    if is_killed and not self.request.delivery_info.get("redelivered"):
        # The machine is lost after `store_result`, before the part is counted.
        app.backend.on_chord_part_return = die
    return 1


@app.task
def joined(counts: list[int]) -> int:
    return sum(counts)


def start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(WORKER, cwd=Path(__file__).parent, stderr=subprocess.DEVNULL)


def ends(asked: Signature, wait_s: float = 10) -> str:
    worker = start()
    result = asked.apply_async()
    try:
        worker.wait(30)
        worker = start()
        until = time.monotonic() + wait_s
        while not result.ready():
            if time.monotonic() > until:
                return f"{result.state} after {wait_s:g} s, and for ever"
            time.sleep(0.1)
        return f"{result.state}: {result.result!r}"
    finally:
        result.forget()
        worker.terminate()
        worker.wait()


if __name__ == "__main__":
    sys.stdout.write(f"celery {__version__}\n")
    sys.stdout.write("expected: SUCCESS with 2, since the message is delivered again\n")
    sys.stdout.write(f"saw:      {ends(chord([part.s(False), part.s(True)], joined.s()))}\n")
