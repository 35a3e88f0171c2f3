"""Sends the tasks that ended requests name (`on_end`), and those that are linked to them.

The drainer moves ended requests with a callback from the outbox to a stream, which one process reads.  An end leaves the
stream when the broker has all of its messages, so a task is sent at least once.  The id of a task is always the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from celery import Celery
from chorale_client.errors import InvalidRequest
from chorale_client.keys import CALLBACK_LEASE, CALLBACKS
from chorale_client.publisher import send_confirmed
from chorale_client.request import Request
from chorale_client.wire_names import Status
from chorale_client.wire_reader import read_request
from kombu import Queue
from kombu.exceptions import OperationalError
from pydantic_core import from_json
from redis.exceptions import RedisError
from structlog import get_logger

from config.callback_policy import check_on_end, check_queue
from config.settings import Settings
from models.duty import Duty, holds
from models.errors import WrongDeclaration
from tasks.callbacks.linked_tasks import own_headers
from tasks.wiring.resources import Resources

log = get_logger("chorale.callbacks")


ACTING_MS = 10_000
"""How long a process that sends may be silent before another one takes over."""
BLOCK_MS = 500
TOGETHER = 8
"""Number of ends that are read together; an answer may have megabytes."""
LONGEST_PAUSE_S, TRIED_FOR_S = 60.0, 86_400.0
UNANSWERED = (Status.FAILED, Status.CANCELLED, Status.REFUSED)


Entry = tuple[str, Mapping[bytes, bytes]]
"""The id of an entry of the stream, and its fields."""


FIRST_PAUSE_S = 1.0


@dataclass(slots=True)
class Attempts:
    """The attempts to send one end."""

    due_s: float = 0.0
    """When the next one is due, by the monotonic clock."""
    failures: int = 0

    def failed(self, *, longest_s: float) -> float:
        """Count a failure; returns the seconds until the next attempt, which grow up to `longest_s`."""
        pause_s = float(min(longest_s, FIRST_PAUSE_S * 2 ** min(self.failures, 20)))
        self.failures += 1
        self.due_s = time.monotonic() + pause_s
        return pause_s


class RequestEnds(Duty):
    """Runs in every process that drains the outbox; one of them acts."""

    failing = "ends are not told"
    expected = (*Duty.expected, RedisError, OperationalError)

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._resources: Resources = app.resources
        self._lease = self._resources.redis.lock(
            CALLBACK_LEASE, timeout=ACTING_MS / 1_000, thread_local=False
        )
        self._last = "0-0"
        self._later: dict[str, Attempts] = {}

    def tick(self) -> float:
        if holds(self._lease):
            self.send_due()
            return 0.0
        self._later = {}
        self.reset()
        return ACTING_MS / 3_000

    def reset(self) -> None:
        """Read the stream from its beginning again."""
        self._last = "0-0"

    def send_due(self, block_ms: int = BLOCK_MS) -> bool:
        """Tell of what is new or due, for a part of the time that this process may act; returns whether all went well."""
        until_s, went_well = time.monotonic() + ACTING_MS / 3_000, True
        for entry, fields in chain(self._due(), self._new(block_ms)):
            went_well &= self._send(entry, fields)
            if time.monotonic() > until_s:
                break
        return went_well

    def _due(self) -> Iterator[Entry]:
        now_s = time.monotonic()
        for entry in [entry for entry, later in self._later.items() if later.due_s <= now_s]:
            entries: Any = self._resources.redis.xrange(CALLBACKS, entry, entry)
            if entries:
                yield entry, entries[0][1]
            else:
                del self._later[entry]

    def _new(self, block_ms: int) -> Iterator[Entry]:
        # Less than the client's socket timeout, and not 0, which means for ever.
        block_ms = max(1, min(block_ms, int(self._resources.settings.redis_socket_timeout_s * 500)))
        reply: Any = self._resources.redis.xread({CALLBACKS: self._last}, count=TOGETHER, block=block_ms)
        # RESP3 returns a dict, with one more level of lists.
        streams = reply.values() if isinstance(reply, dict) else [[entries] for _, entries in reply or ()]
        for raw, fields in (entry for stream in streams for entry in stream[0]):
            self._last = entry = raw.decode()
            if entry not in self._later:
                yield entry, fields

    def _send(self, entry: str, fields: Mapping[bytes, bytes]) -> bool:
        """Returns False if this end has to be sent later."""
        request_id = fields[b"id"].decode()
        try:
            for message in messages_of(fields, self._resources.settings):
                send(self._app, **message)
            log.info("told of the end", request_id=request_id)
        except (InvalidRequest, WrongDeclaration) as error:
            log.error("callback dropped: invalid target", request_id=request_id, error=str(error)[:300])
        except Exception as error:  # whatever a broker's transport raises
            is_over = time.time() - int(entry.partition("-")[0]) / 1_000 > TRIED_FOR_S
            attempts = self._later.setdefault(entry, Attempts())
            again_in_s = None if is_over else attempts.failed(longest_s=LONGEST_PAUSE_S)
            log.warning("end not told", request_id=request_id, again_in_s=again_in_s, error=str(error)[:300])
            if again_in_s is not None:
                return False
        self._resources.redis.xdel(CALLBACKS, entry)
        self._later.pop(entry, None)
        return True


def messages_of(fields: Mapping[bytes, bytes], settings: Settings) -> Iterator[dict[str, Any]]:
    """The messages to send because of this end.  Raises InvalidRequest and WrongDeclaration."""
    request = read_request(fields[b"request"]).request
    request_id, answer = fields[b"id"].decode(), from_json(fields[b"answer"])
    check_callbacks(request, settings)
    headers = _headers(request)
    own_id = f"{request_id}.{fields[b'ended_at'].decode()}"
    if request.on_end:
        yield {
            **request.on_end,
            "kwargs": {"request_id": request_id, "status": answer["status"]},
            "task_id": own_id,
            "headers": headers,
            "ignore_result": True,
        }
    for place, linked in enumerate(request.linked):
        if linked.is_for_errors and answer["status"] not in UNANSWERED:
            continue
        first = {"answer": [answer], "request_id": [request_id], None: []}[linked.first]
        yield {
            **linked.model_dump(exclude={"first", "is_for_errors", "options"}),
            **linked.options,
            "headers": {**headers, **own_headers(linked.options.get("headers") or {})},
            "args": [*first, *linked.args],
            "task_id": linked.task_id or f"{own_id}.{place}",
            "root_id": linked.root_id or request_id,
            "parent_id": request_id,
            "chain": list(linked.chain) or None,
            "link": list(linked.link),
            "link_error": list(linked.link_error),
        }


def _headers(request: Request) -> dict[str, Any]:
    """The headers of the caller's message, and its place in its trace, for the tasks that follow."""
    trace = {"traceparent": request.traceparent} if request.traceparent else {}
    return {**own_headers(request.headers), **trace}


def check_callbacks(request: Request, settings: Settings) -> None:
    """Raises WrongDeclaration if the request names a queue to which this installation sends no tasks."""
    check_on_end(request.on_end, settings)
    for linked in request.linked:
        check_queue(linked.queue, settings, named_by=f"link: {linked.task}")


def send(app: Celery, task: str, queue: str, **message: Any) -> None:
    """Send the task; raises if the broker does not have it in a queue of this name."""
    send_confirmed(
        app,
        task,
        # Sent through the nameless exchange, which reaches every queue.  The queue is not declared: only its owner knows
        # its arguments.
        queue=Queue(queue),
        declare=[],
        mandatory=True,
        **message,
    )
