"""Kinds of branches that fail like a foreign task, a lost process or a lost message.

A process that ran `PRELOAD` first knows them.  `pipeline_file` declares a branch of each kind beside a healthy `bm25`.  They
are Celery tasks of their own, without the precautions of `tasks.request.batch`.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from celery import Celery, chord
from celery.exceptions import Ignore, Reject
from chorale_client.wire_names import TASK_SEARCH

from models.branch_result import BranchResult
from models.hits import Hit, Ranking
from tasks.celery_internals.result_backend import Report
from tasks.request import batch
from tests.support.pipelines.kinds import declare, kinds_with

QUEUE, FORKED, UNSERVED = "chorale.faults", "chorale.forked", "chorale.unserved"
"""The queue of the faulty branches, that of branches that need a process pool, and one without a worker."""

PAUSED_QUEUE = "chorale.paused"
"""The queue of the kinds `paused` and `perishable`; a test starts its workers."""

PRELOAD = "from tests.support.pipelines import branch_faults; branch_faults.install()\n"

PREFORK = [
    "celery",
    "-A",
    "tasks.app",
    "worker",
    "-Q",
    FORKED,
    "-P",
    "prefork",
    "-c",
    "1",
    "-n",
    f"{FORKED}@%h",
]
"""The worker command of Celery itself."""

DELIVERIES = "test:deliveries:"
"""Key prefix: how often the kind `fickle` was delivered, by request id."""
ATTEMPTS = "test:attempts:"
"""Key prefix: how often each attempt of the kind `paused` was delivered, a hash by request id."""

LET_GO = "test:let_go:"
"""Key prefix: the list on which an attempt of the kind `paused` waits, by request id and attempt."""

PERISHABLE_S = 1.0
"""How long a broker keeps a message of the kind `perishable`."""

Task = Callable[..., Any]


def branch_result_of(branch: str, document: str, **fields: Any) -> BranchResult:
    """An answer with one document of the corpus."""
    ranking = Ranking((Hit(f"{document}#0", document, 0.9),))
    return BranchResult(branch, "ok", rankings=(ranking,), **fields)


def _raising(error: BaseException) -> Task:
    def fail(*_: Any) -> None:
        raise error

    return fail


def _returns_what_is_no_json(*_: Any) -> object:
    return {1, 2}


def _retries_once(task: Any, _: str, branch: str, _attempt: int) -> Report:
    if not task.request.retries:
        raise task.retry(countdown=0)
    return Report(branch_result_of(branch, "error"))


def _retries_in_vain(task: Any, *_: Any) -> None:
    raise task.retry(exc=RuntimeError("still on fire"), countdown=0, max_retries=2)


def _retries_much_later(task: Any, *_: Any) -> None:
    raise task.retry(countdown=180)


def _is_not_counted(task: Any, _: str, branch: str, _attempt: int) -> Report:
    """Like a task of celery-batches, whose request has no chord, or a worker lost between storing and counting."""
    task.request.chord = None
    return Report(branch_result_of(branch, "error"))


def _becoming_a_chord(*, fails: bool) -> Task:
    def become(task: Any, *_: Any) -> None:
        inner = task.app.signature("test.inner", args=(fails,), queue=QUEUE)
        raise task.replace(chord([inner, inner.clone()], task.app.signature("test.joined", queue=QUEUE)))

    return become


def _sleeping(seconds: float) -> Task:
    def sleep(_task: Any, _: str, branch: str, _attempt: int) -> Report:
        time.sleep(seconds)
        return Report(branch_result_of(branch, "error"))

    return sleep


def _is_killed(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _is_fickle(task: Any, request_id: str, branch: str, _attempt: int) -> Report:
    """Answers every delivery, even if nobody waits for it: `bread` first, then `repairs`."""
    count = task.app.resources.redis.incr(DELIVERIES + request_id)
    return Report(branch_result_of(branch, "bread" if count == 1 else "repairs"))


def _waits_for_the_test(task: Any, request_id: str, branch: str, attempt: int) -> Report:
    """Answers when the test lets it: `bread` at the first attempt, `repairs` at the second.

    The sweeper may send a part again that waits too long in RabbitMQ's queue: the copy keeps no worker busy.
    """
    if task.app.resources.redis.hincrby(ATTEMPTS + request_id, attempt, 1) > 1:
        raise Ignore
    # A test that fails before it lets go must not hold the worker for ever.
    task.app.resources.redis.brpop([f"{LET_GO}{request_id}:{attempt}"], timeout=20)
    return Report(branch_result_of(branch, "bread" if attempt == 1 else "repairs", attempt=attempt))


class _Wire(BranchResult):
    """A branch result of another version, or nothing of the kind."""

    def to_wire(self) -> bytes:
        text = {
            "next_version": b'{"v":99,"branch":{"name":"x"},"status":"ok","verdict":["new"],"rankings":'
            b'[{"hits":[["bread#0","bread",0.9]],"curve":[1]}],"attempt":1,"cost":{"eur":2}}',
            "another_shape": b'{"v":99,"verdict":"fine","lists":[]}',
            "no_json": b"\x80\x04 fine",
        }
        return text[self.branch]


def _answers_otherwise(_task: Any, _: str, branch: str, _attempt: int) -> Report:
    return Report(_Wire(branch, "ok"))


TASKS: Mapping[str, Task] = {
    "raises": _raising(RuntimeError("the disk is on fire")),
    "exits": _raising(SystemExit(3)),
    "out_of_memory": _raising(MemoryError("too much")),
    "no_result": _returns_what_is_no_json,
    "rejects": _raising(Reject("not mine", requeue=False)),
    "ignores": _raising(Ignore()),
    "retries_once": _retries_once,
    "retries_in_vain": _retries_in_vain,
    "retries_later": _retries_much_later,
    "not_counted": _is_not_counted,
    "failing_chord": _becoming_a_chord(fails=True),
    "nested_chord": _becoming_a_chord(fails=False),
    "sleeps": _sleeping(3),
    "hangs": _sleeping(15),
    "killed": _is_killed,
    "unserved": _is_fickle,
    "perishable": _is_fickle,
    "paused": _waits_for_the_test,
    "fickle": _is_fickle,
    "next_version": _answers_otherwise,
    "another_shape": _answers_otherwise,
    "no_json": _answers_otherwise,
}
"""What the task of a branch does after it has begun, by the branch's kind, which is also its name."""

UNKNOWN = "unknown"
"""A kind that can be declared and for which no worker has a task, as during a deploy."""

OPTIONS: Mapping[str, dict[str, Any]] = {
    "sleeps": {"time_limit": 0.3},
    "perishable": {"expires": PERISHABLE_S},
}
"""Celery's options of a task, by its kind."""

KINDS = kinds_with(UNKNOWN, *TASKS)


def pipeline_file(folder: Path) -> Path:
    """A pipeline of `bm25` and every faulty kind."""
    tables = ['[stores.local]\nkind = "embedded"\n', _branch("bm25", "lexical", "chorale.bm25")]
    queues = dict.fromkeys(("sleeps", "hangs", "killed"), FORKED) | {"unserved": UNSERVED}
    queues |= dict.fromkeys(("perishable", "paused"), PAUSED_QUEUE)
    tables += [_branch(kind, "dense", queues.get(kind, QUEUE)) for kind in (*TASKS, UNKNOWN)]
    file = folder / "pipeline.toml"
    file.write_text("\n".join(tables))
    return file


def _branch(kind: str, group: str, queue: str) -> str:
    return f'[branches.{kind}]\nkind = "{kind}"\ngroup = "{group}"\nstore = "local"\nqueue = "{queue}"\n'


def install() -> None:
    """Declare the kinds in this process, and register their tasks in place of the product's."""
    declare(**{kind: KINDS.branches[kind].search for kind in (UNKNOWN, *TASKS)})
    register = batch.register

    def register_all(app: Celery) -> None:
        register(app)
        app.finalize()
        app.tasks.unregister(TASK_SEARCH.format(kind=UNKNOWN))
        for kind, task in TASKS.items():
            name = TASK_SEARCH.format(kind=kind)
            app.tasks.unregister(name)
            app.task(_begun(task), name=name, bind=True, ignore_result=True, **OPTIONS.get(kind, {}))
        app.task(_inner, name="test.inner")
        app.task(_joined, name="test.joined")

    batch.register = register_all


def _begun(does: Task) -> Task:
    def task(self: Any, request_id: str, branch: str, attempt: int = 1, **_: Any) -> Any:
        self.app.resources.ledger.start(request_id, branch)
        return does(self, request_id, branch, attempt)

    return task


def _inner(fails: bool) -> int:
    if fails:
        raise RuntimeError("the inner disk is on fire")
    return 1


def _joined(counts: list[int]) -> int:
    return sum(counts)


def forked_worker() -> list[str]:
    """The command that starts a worker with a process pool on the queue FORKED."""
    start = f"import sys; sys.argv = {PREFORK!r}; from celery.__main__ import main; main()"
    return [sys.executable, "-c", f"{PRELOAD}\n{start}"]
