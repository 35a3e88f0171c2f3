"""What was seen in Celery itself: `cases.py CASE` runs a case of the table, and prints what was expected and what happened.

A case has a plain Celery application with a worker of its own.  `chords` is the table of chords that wait for ever; the cases of
single messages and tasks are functions.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import celery
import kombu
from celery import Celery, Task, chord
from celery.canvas import Signature
from celery.exceptions import Ignore
from kombu.asynchronous import Hub
from redis import Redis
from redis.exceptions import RedisError

CASE = os.environ.setdefault("CASE", " ".join(sys.argv[1:2]) if __name__ == "__main__" else "")
OWN_PORT = os.environ.get("OWN_PORT", "6390")
OWN_URL = f"redis://127.0.0.1:{OWN_PORT}/0" if CASE == "redis_restarted_empty" else None
URL = OWN_URL or os.environ.get("REDIS_URL", "redis://localhost:6379/0")
SERVER = ["redis-server", "--port", OWN_PORT, "--bind", "127.0.0.1", "--save", "", "--logfile", os.devnull]
BEGUN = f"{CASE}:begun"

ACKS_LATE = {"task_acks_late": True, "task_reject_on_worker_lost": True}
SOON = {"visibility_timeout": 3, "unacked_restore_interval": 1, "unacked_restore_throttle": 1}
SETTINGS: dict[str, dict[str, Any]] = {
    "killed_after_its_result": ACKS_LATE,
    "killed_before_its_callback": ACKS_LATE,
    "deduplicated_part": {
        "task_acks_late": True,
        "worker_deduplicate_successful_tasks": True,
        "broker_transport_options": SOON,
    },
    "expired_while_it_runs": {"result_expires": 1},
}
app = Celery("cases", broker=URL, backend=URL)
app.conf.update(task_default_queue=CASE, **SETTINGS.get(CASE, {}))
redis = Redis.from_url(URL)
started: list[subprocess.Popen[Any]] = []
"""The worker and the Redis server of the case; the newest worker is the last."""


def die(*_args: object, **_kwargs: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@app.task
def part(duration_s: float = 0.0) -> int:
    redis.incr(BEGUN)
    time.sleep(duration_s)
    return 1


@app.task
def joined(counts: list[int]) -> int:
    return sum(counts)


@app.task(bind=True)
def uncounted(self: Task, *, always: bool) -> int:
    """A task whose process is killed after `store_result`, before the task is counted; a redelivered one only with `always`."""
    redis.incr(BEGUN)
    if always or not self.request.delivery_info.get("redelivered"):
        app.backend.on_chord_part_return = die
    return 1


@app.task
def unpublished() -> int:
    """A task whose process is killed after it claimed the callback, before it publishes the callback."""
    app.amqp._retry_publish = die
    return 1


@app.task
def ignored() -> None:
    raise Ignore


@app.task
def fails() -> None:
    raise RuntimeError("on fire")


@app.task(bind=True)
def replaced(self: Task) -> None:
    raise self.replace(chord([part.s(), fails.s()], joined.s()))


@app.task
def leaves() -> None:
    raise SystemExit(3)


def evict() -> None:
    """What `maxmemory-policy allkeys-lru` may do, with the one key that matters."""
    redis.delete(*redis.scan_iter("celery-taskset-meta-*.s"))


def restart_worker() -> None:
    started[-1].wait(30)
    start_worker("-P", "solo")


def restart_server() -> str:
    started[0].kill()
    started[0].wait()
    start_server()
    return f"; a task sent later gave {part.delay().get(timeout=30)}"


class WaitingChord(NamedTuple):
    header: list[Signature]
    expected: str
    happens: Callable[[], object] | None = None
    """Called when both parts have begun."""
    wait_s: float = 10
    pool: tuple[str, ...] = ("-c", "2")


REQUEUED = "SUCCESS with 2, since the message is requeued; or FAILURE with ChordError"
NOT_REGISTERED = "FAILURE with ChordError, since the part's own state becomes FAILURE (NotRegistered)"
KNOWN = "FAILURE with ChordError, since each part knows its chord"


def chords() -> dict[str, list[WaitingChord]]:
    """Each of these chords stays PENDING."""
    one, long = part.s(), part.s(1)
    inner = chord([one, fails.s()], joined.s())
    deduplicated = [one, uncounted.s(always=False)]
    again = "SUCCESS with 2, since the message is delivered again"
    return {
        "killed_after_its_result": [WaitingChord([uncounted.s(always=True), one], REQUEUED)],
        "killed_before_its_callback": [WaitingChord([unpublished.s(), unpublished.s()], REQUEUED, wait_s=15)],
        "deduplicated_part": [WaitingChord(deduplicated, again, restart_worker, pool=("-P", "solo"))],
        "expired_while_it_runs": [
            WaitingChord([part.s(3), part.s(3)], "SUCCESS with 2; or FAILURE with ChordError")
        ],
        "size_evicted": [
            WaitingChord([long, long], f"{KNOWN} ({what})", happens, wait_s=5)
            for what, happens in {"evicted": evict, "flushed": redis.flushdb}.items()
        ],
        "redis_restarted_empty": [WaitingChord([part.s(5), part.s(5)], KNOWN, restart_server, wait_s=8)],
        "unknown_header_task": [WaitingChord([one, app.signature("not_deployed_yet")], NOT_REGISTERED)],
        "ignored_header": [
            WaitingChord([one, ignored.s()], "FAILURE with ChordError, or SUCCESS with the other part")
        ],
        "failing_inner_chord": [
            WaitingChord([one, inner], "FAILURE with ChordError for a chord in the header"),
            WaitingChord(
                [one, replaced.s()], "FAILURE with ChordError for a part that is replaced by a chord"
            ),
        ],
    }


def start_server() -> None:
    started.insert(0, subprocess.Popen(SERVER))
    while True:
        with suppress(RedisError):
            redis.ping()
            return
        time.sleep(0.05)


def start_worker(
    *options: str, stderr: int = subprocess.DEVNULL, level: str = "CRITICAL"
) -> subprocess.Popen[str]:
    call = [sys.executable, "-m", "celery", "-q", "-A", "cases", "worker", "-l", level, *options]
    started.append(worker := subprocess.Popen(call, cwd=Path(__file__).parent, stderr=stderr, text=True))
    return worker


def waiting_chord(case: WaitingChord) -> str:
    redis.delete(BEGUN)
    result = chord(case.header, joined.s()).apply_async()
    while case.happens and int(redis.get(BEGUN) or 0) < 2:
        time.sleep(0.01)
    more = (case.happens and case.happens()) or ""
    until = time.monotonic() + case.wait_s
    while not result.ready() and time.monotonic() < until:
        time.sleep(0.1)
    result.forget()
    return f"{result.result!r}" if result.ready() else f"PENDING after {case.wait_s:g} s, and for ever{more}"


def message(body: bytes, **headers: object) -> bytes:
    usual = {"lang": "py", "task": part.name, "id": "1", **headers}
    return json.dumps({
        "body": b64encode(body).decode(),
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": {name: value for name, value in usual.items() if value is not None},
        "properties": {
            "delivery_info": {"exchange": "", "routing_key": CASE}, "body_encoding": "base64", "delivery_tag": "1"
        },
    }).encode()  # fmt: skip


NO_ARGUMENTS = b"[[], {}, {}]"
UNREADABLE = {
    "no JSON": b"hello",
    "JSON nested 10,000 levels deep": b"[" * 10_000 + b"]" * 10_000,
    "a JSON text": b'"hello"',
    "a body of another shape": message(b'{"a": 1}'),
    "a task name that is a list": message(NO_ARGUMENTS, task=["part"]),
    "a time limit that is a text": message(NO_ARGUMENTS, timelimit="soon"),
}


def unreadable_message() -> None:
    """Each message goes to a worker with a queue of its own."""
    queues = {what: f"{CASE}-{number}" for number, what in enumerate(UNREADABLE)}
    workers = {what: start_worker("-P", "solo", "-Q", queue, "-n", queue) for what, queue in queues.items()}
    for what, sent in UNREADABLE.items():
        part.apply_async(queue=queues[what]).get(timeout=60)
        redis.lpush(queues[what], sent)
    for what, worker in workers.items():
        with suppress(subprocess.TimeoutExpired):
            worker.wait(timeout=15)
        report(f"it is logged and dropped, the worker goes on ({what})", f"the worker {state(worker)}")


def message_without_id() -> None:
    redis.delete(CASE, "unacked", "unacked_index")
    worker = start_worker("-P", "solo", stderr=subprocess.PIPE, level="WARNING")
    part.delay().get(timeout=30)
    redis.lpush(CASE, message(NO_ARGUMENTS, id=None))
    time.sleep(5)
    worker.kill()
    lost = worker.communicate()[1].count("Connection to broker lost")
    redis.delete(CASE, "unacked", "unacked_index")
    seen = f"the connection was called lost {lost} times in 5 s, and the message is still there"
    report("it is logged and dropped, the connection stays", seen)


def system_exit_in_solo_pool() -> None:
    worker = start_worker("-P", "solo", stderr=subprocess.PIPE)
    part.delay().get(timeout=30)
    result = leaves.delay()
    with suppress(subprocess.TimeoutExpired):
        worker.wait(timeout=30)
    ended = state(worker)
    worker.terminate()
    said = [line for line in worker.communicate()[1].splitlines() if "Error" in line]
    expected = "the task fails with WorkerLostError, as with the prefork pool, and the worker goes on"
    report(expected, f"the task is {result.state}, the worker {ended}: {said[-1:]}")
    result.forget()


def ready_and_not_run() -> None:
    hub, (idle, _other_end) = Hub(), socket.socketpair()
    hub.add_reader(idle, lambda: None)
    ran_at: list[float] = []
    begun = time.monotonic()
    # As the transport of RabbitMQ does when it reads on, and Celery when it acknowledges what was read.
    hub.call_soon(lambda: hub.call_soon(lambda: ran_at.append(time.monotonic())))
    while not ran_at:
        hub.run_once()
    report("the second callback runs at once", f"it ran after {ran_at[0] - begun:.3f} s")


OTHERS = (unreadable_message, message_without_id, system_exit_in_solo_pool, ready_and_not_run)
NAMES = sorted([*chords(), *(case.__name__ for case in OTHERS)])


def state(worker: subprocess.Popen[str]) -> str:
    return "goes on" if worker.poll() is None else f"ended with {worker.poll()}"


def report(expected: str, saw: str) -> None:
    sys.stdout.write(f"expected: {expected}\nsaw:      {saw}\n")


def main() -> None:
    if CASE not in NAMES:
        sys.exit(f"{CASE!r} is no case; there are: {', '.join(NAMES)}")
    sys.stdout.write(f"celery {celery.__version__}, kombu {kombu.__version__}\n")
    try:
        for other in OTHERS:
            if other.__name__ == CASE:
                other()
        if cases := chords().get(CASE):
            if OWN_URL:
                start_server()
            start_worker(*cases[0].pool)
            for case in cases:
                report(case.expected, waiting_chord(case))
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
