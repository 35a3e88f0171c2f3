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
from chorale_client.keys import TELLER, TO_TELL
from chorale_client.request import Request
from chorale_client.wire_names import Status
from chorale_client.wire_reader import read_request
from kombu.exceptions import OperationalError
from pydantic_core import from_json
from redis.exceptions import RedisError
from structlog import get_logger

from config.callback_policy import check_on_end, check_queue
from config.settings import Settings
from models.duty import Duty
from models.errors import WrongDeclaration
from tasks.callbacks.user_tasks import pause_s, send
from wiring.resources import Resources

log = get_logger("chorale.callbacks")

ACTING_MS = 10_000
"""How long a process that tells may be silent before another one takes over."""
BLOCK_MS = 500
TOGETHER = 8
"""Number of ends that are read together; an answer may have megabytes."""
LONGEST_PAUSE_S, TRIED_FOR_S = 60.0, 86_400.0
UNANSWERED = (Status.FAILED, Status.CANCELLED, Status.REFUSED)


Entry = tuple[str, Mapping[bytes, bytes]]
"""The id of an entry of the stream, and its fields."""


@dataclass(slots=True)
class _Later:
    due_s: float
    failures: int


class RequestEnds(Duty):
    """Runs in every process that drains the outbox; one of them acts."""

    failing = "ends are not told"
    expected = (*Duty.expected, RedisError, OperationalError)

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._resources: Resources = app.resources
        self._lease = self._resources.redis.lock(TELLER, timeout=ACTING_MS / 1_000, thread_local=False)
        self._last = "0-0"
        self._later: dict[str, _Later] = {}

    def look(self) -> float:
        if self._is_acting():
            self.tell_once()
            return 0.0
        self._later = {}
        self.reset()
        return ACTING_MS / 3_000

    def reset(self) -> None:
        """Read the stream from its beginning again."""
        self._last = "0-0"

    def _is_acting(self) -> bool:
        lease = self._lease
        return bool(lease.acquire(blocking=False) or (lease.owned() and lease.reacquire()))

    def tell_once(self, block_ms: int = BLOCK_MS) -> bool:
        """Tell of what is new or due, for a part of the time that this process may act; returns whether all went well."""
        until_s, went_well = time.monotonic() + ACTING_MS / 3_000, True
        for entry, fields in chain(self._due(), self._new(block_ms)):
            went_well &= self._tell(entry, fields)
            if time.monotonic() > until_s:
                break
        return went_well

    def _due(self) -> Iterator[Entry]:
        now_s = time.monotonic()
        for entry in [entry for entry, later in self._later.items() if later.due_s <= now_s]:
            found: Any = self._resources.redis.xrange(TO_TELL, entry, entry)
            if found:
                yield entry, found[0][1]
            else:
                del self._later[entry]

    def _new(self, block_ms: int) -> Iterator[Entry]:
        # Less than the client's socket timeout, and not 0, which means for ever.
        block_ms = max(1, min(block_ms, int(self._resources.settings.redis_socket_timeout_s * 500)))
        found: Any = self._resources.redis.xread({TO_TELL: self._last}, count=TOGETHER, block=block_ms)
        # RESP3 returns a dict, with one more level of lists.
        streams = found.values() if isinstance(found, dict) else [[entries] for _, entries in found or ()]
        for raw, fields in (entry for stream in streams for entry in stream[0]):
            self._last = entry = raw.decode()
            if entry not in self._later:
                yield entry, fields

    def _tell(self, entry: str, fields: Mapping[bytes, bytes]) -> bool:
        """Returns False if this end has to be told later."""
        request_id = fields[b"id"].decode()
        try:
            for message in messages_of(fields, self._resources.settings):
                send(self._app, **message)
            log.info("told of the end", request_id=request_id)
        except (InvalidRequest, WrongDeclaration) as error:
            log.error("callback dropped: invalid target", request_id=request_id, error=str(error)[:300])
        except Exception as error:  # whatever a broker's transport raises
            failures = self._later[entry].failures if entry in self._later else 0
            is_over = time.time() - int(entry.partition("-")[0]) / 1_000 > TRIED_FOR_S
            again_in_s = None if is_over else pause_s(failures, longest_s=LONGEST_PAUSE_S)
            log.warning("end not told", request_id=request_id, again_in_s=again_in_s, error=str(error)[:300])
            if again_in_s is not None:
                self._later[entry] = _Later(time.monotonic() + again_in_s, failures + 1)
                return False
        self._resources.redis.xdel(TO_TELL, entry)
        self._later.pop(entry, None)
        return True


def messages_of(fields: Mapping[bytes, bytes], settings: Settings) -> Iterator[dict[str, Any]]:
    """The messages to send because of this end.  Raises InvalidRequest and WrongDeclaration."""
    request = read_request(fields[b"request"]).request
    request_id, answer = fields[b"id"].decode(), from_json(fields[b"answer"])
    check_told(request, settings)
    own_id = f"{request_id}.{fields[b'ended_at'].decode()}"
    if request.on_end:
        yield {
            **request.on_end,
            "kwargs": {"request_id": request_id, "status": answer["status"]},
            "task_id": own_id,
            "ignore_result": True,
        }
    for place, one in enumerate(request.linked):
        if one.is_for_errors and answer["status"] not in UNANSWERED:
            continue
        first = {"answer": [answer], "request_id": [request_id], None: []}[one.first]
        yield {
            **one.model_dump(exclude={"first", "is_for_errors", "options"}),
            **one.options,
            "args": [*first, *one.args],
            "task_id": one.task_id or f"{own_id}.{place}",
            "root_id": one.root_id or request_id,
            "parent_id": request_id,
            "chain": list(one.chain) or None,
            "link": list(one.link),
            "link_error": list(one.link_error),
        }


def check_told(request: Request, settings: Settings) -> None:
    """Raises WrongDeclaration if the request names a queue to which this installation sends no tasks."""
    check_on_end(request.on_end, settings)
    for one in request.linked:
        check_queue(one.queue, settings, named_by=f"link: {one.task}")
