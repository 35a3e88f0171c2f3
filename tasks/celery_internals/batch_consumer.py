"""A worker takes the messages that wait for it in one go: one script pops them and makes the first step of each.

Celery's own intake costs about a millisecond for each message.  Messages of branches and of the fusion come past it; what
Celery promises for them is done here: signals, the count of tasks, the heartbeat's list of messages in hand, and
the return of messages to their queue when the worker is stopped.  All other messages, and revoked ones, go Celery's way.

Only `chorale worker` over the ledger's own Redis does this.  RabbitMQ and a second Redis have no script that could pop and
start at once, and prefetched messages would wait in one worker while another is idle: there each message comes alone.
"""

from __future__ import annotations

import time
from base64 import b64decode
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from celery import Celery, signals
from celery.exceptions import WorkerShutdown, WorkerTerminate
from celery.worker import state
from chorale_client.keys import READY
from chorale_client.wire_names import QUEUE_FUSION
from kombu.utils.json import dumps
from pydantic_core import from_json
from redis import Redis
from redis.exceptions import RedisError
from structlog import get_logger

from config.redis_client import is_transient
from ledger.protocol import QueueMessage, Snapshot, Started
from ledger.redis import RedisLedger
from models.duty import PAUSE_S
from models.retries import retried
from tasks.celery_internals import event_sender
from tasks.celery_internals.result_backend import part_id

log = get_logger("chorale.intake")

PUT_BACK_S = 30.0
"""How long a worker tries to put messages back."""

Payload = dict[str, Any]
Deliver = Callable[[Payload, str], None]


@dataclass(frozen=True, slots=True)
class ConsumedMessage:
    """A message that the ledger started or joined, with the arguments of its task."""

    queue: str
    payload: Payload
    task_id: str
    task: Any
    arguments: Mapping[str, Any]
    started: Started | None
    joined: Snapshot | None


@dataclass(frozen=True)
class BatchConsumer:
    """Takes messages for one worker.

    Two things here are easy to break.  `celery.worker.state` is Celery's own: its totals and `event_sender.consumed_ids` are what
    heartbeats, `inspect stats` and the supervisor see of messages that never become a request of Celery.  Therefore each
    message that is worked on passes `_signalled`, whose end runs whatever is raised.
    """

    app: Celery
    ledger: RedisLedger
    redis: Redis
    tasks: Collection[str]
    """The names of the tasks that come past Celery."""
    most: Mapping[str, int]
    """How many messages of each queue the worker takes at once; a message of a queue with 1 is taken alone."""
    has_tokens: bool
    """Whether the planner pushes a token for each chord, and this worker serves every branch."""
    run: Callable[[Sequence[ConsumedMessage], Sequence[Snapshot], float], None]
    """Works on what was taken: the parts of branches, the joined requests, and the monotonic clock before the join."""

    @property
    def _together(self) -> dict[str, int]:
        return {queue: count for queue, count in self.most.items() if count > 1}

    def take(self, payload: Payload, queue: str, deliver: Deliver) -> None:
        """Work on this message of the queue, and on those that wait with it.  `deliver` is Celery's way."""
        headers = payload.get("headers")
        if not self._is_ours(headers) or queue not in self.most:
            deliver(payload, queue)
            return
        assert isinstance(headers, dict)
        task, task_id = headers["task"], headers["id"]
        more = {name: count - (name == queue) for name, count in self._together.items()}
        begun_s = time.monotonic()
        try:
            entries = self.ledger.take(
                first=(queue, task, task_id), most=more if queue in self._together else {}
            )
        except RedisError as error:
            log.warning("not taken", task_id=task_id, error=str(error)[:200])
            deliver(payload, queue)
            return
        self._work_on_entries(entries, payload, begun_s, deliver)

    def take_waiting(self, deliver: Deliver) -> None:
        """Work on the messages that wait in the queues, after a token of `keys.READY` or a second without one."""
        begun_s = time.monotonic()
        try:
            entries = self.ledger.take(first=None, most=self._together)
        except RedisError as error:
            log.warning("not taken", error=str(error)[:200])
            return
        self._work_on_entries(entries, {}, begun_s, deliver)

    def waits_on(self, queues: Sequence[str]) -> list[str]:
        """The lists on which the worker waits: tokens in place of the queues of several branches that it takes together.

        Each message of a chord would otherwise wake another replica, which embeds the question once more.
        """
        woken = (self._together.keys() & set(queues)) - {QUEUE_FUSION}
        if not self.has_tokens or len(woken) < 2:
            return list(queues)
        return [READY, *(queue for queue in queues if queue not in woken)]

    def _work_on_entries(
        self, entries: Sequence[QueueMessage], payload: Payload, begun_s: float, deliver: Deliver
    ) -> None:
        ours, others = self._read_all(entries, payload)
        try:
            self._work_on(ours, begun_s)
            while others:
                deliver(*others[0])
                del others[0]
        except BaseException:
            # Celery may have the first of these messages.  Putting it back may deliver it twice; leaving it out may lose it.
            self._put_back(others)
            raise

    def _read_all(
        self, entries: Sequence[QueueMessage], payload: Payload
    ) -> tuple[list[ConsumedMessage], list[tuple[Payload, str]]]:
        """What we work on, and what goes Celery's way; `payload` is of the message without its text."""
        ours, others = list[ConsumedMessage](), list[tuple[Payload, str]]()
        for entry in entries:
            its_payload = payload if not entry.message else _json(entry.message)
            message = self._read(entry, its_payload) if isinstance(its_payload, dict) else None
            if message is not None:
                ours.append(message)
            elif its_payload is not None:
                others.append((its_payload, entry.queue))
        return ours, others

    def _is_ours(self, headers: Any) -> bool:
        """Celery waits for an `eta`, drops what has expired or was revoked, and says what is wrong with other headers."""
        return (
            isinstance(headers, dict)
            and headers.get("task") in self.tasks
            and isinstance(headers.get("id"), str)
            and not (headers.get("eta") or headers.get("expires") or headers["id"] in state.revoked)
        )

    def _read(self, entry: QueueMessage, payload: Payload) -> ConsumedMessage | None:
        """None: Celery reads it."""
        headers = payload.get("headers")
        if not entry.is_known or not self._is_ours(headers):
            return None
        assert isinstance(headers, dict)
        try:
            args, kwargs, _ = from_json(b64decode(payload["body"]))
            if args or _task_id(kwargs) != headers["id"]:
                return None
            task = self.app.tasks[headers["task"]]
            return ConsumedMessage(
                entry.queue, payload, headers["id"], task, dict(kwargs), entry.started, entry.joined
            )
        except (ValueError, KeyError, TypeError):
            return None

    def _work_on(self, messages: Sequence[ConsumedMessage], begun_s: float) -> None:
        parts = [message for message in messages if message.started is not None]
        joined = [message.joined for message in messages if message.joined is not None]
        with self._signalled(messages):
            try:
                self.run(parts, joined, begun_s)
            except (WorkerShutdown, WorkerTerminate):
                # Those that had been reported already are duplicates, which nobody waits for.
                self._put_back([(message.payload, message.queue) for message in messages])
                raise
            except BaseException as error:  # foreign code may raise SystemExit
                if isinstance(error, RedisError) and is_transient(error):
                    self._search_again(messages, error)
                    return
                log.exception("batch failed", messages=len(messages))
                for message in messages:
                    self.app.backend.mark_as_failure(message.task_id, error)

    def _search_again(self, messages: Sequence[ConsumedMessage], error: RedisError) -> None:
        """A failover may outlast the attempts to report.  Any worker searches the parts again; what was reported counts once."""
        log.warning("batch goes back", messages=len(messages), error=str(error))
        try:
            self._put_back([(message.payload, message.queue) for message in messages])
        except RedisError as still:
            log.error("batch lost", messages=len(messages), error=str(still))

    def _put_back(self, messages: Sequence[tuple[Payload, str]]) -> None:
        """Put messages that were popped back at the head of their queues.  No other process has them, so this method waits for a
        Redis that is away."""
        for payload, queue in messages:
            push = partial(self.redis.rpush, queue, dumps(payload))
            retried(push, RedisError, for_s=PUT_BACK_S, pause_s=lambda _: PAUSE_S)

    @contextmanager
    def _signalled(self, messages: Sequence[ConsumedMessage]) -> Iterator[None]:
        """Tell Celery's listeners when the tasks begin and have ended."""
        event_sender.consumed_ids |= {message.task_id for message in messages}
        for message in messages:
            state.total_count.update({message.task.name: 1})
            state.all_total_count[0] += 1
            signals.task_prerun.send(**_signal_fields(message))
        try:
            yield
        finally:
            event_sender.consumed_ids -= {message.task_id for message in messages}
            for message in messages:
                signals.task_postrun.send(**_signal_fields(message), retval=None, state="SUCCESS")


def _signal_fields(message: ConsumedMessage) -> dict[str, Any]:
    task = message.task
    return {
        "sender": task,
        "task_id": message.task_id,
        "task": task,
        "args": [],
        "kwargs": message.arguments,
    }


def _task_id(arguments: Mapping[str, Any]) -> str:
    request_id = str(arguments["request_id"])
    if "branch" not in arguments:
        return request_id
    return part_id(request_id, arguments["branch"], arguments.get("attempt", 1))


def _json(message: bytes) -> Payload | None:
    try:
        payload = from_json(message)
    except ValueError as error:
        log.error("message dropped", where="queue", error=str(error)[:200])
        return None
    return payload if isinstance(payload, dict) else None
