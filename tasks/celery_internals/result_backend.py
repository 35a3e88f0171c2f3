"""Celery's result backend on top of the ledger: one Lua call joins a chord, and only the ledger writes the answer.

The setting `result_backend` names this class.  What Celery calls, and what happens:

| Celery calls                              | here                                                          |
|-------------------------------------------|---------------------------------------------------------------|
| `on_chord_part_return`, a part ended      | report, and publish the callback if the ledger says `due`     |
| `mark_as_failure` of an unknown task      | report as failed: the part's id names request and branch      |
| `store_result` of a part or the callback  | nothing                                                       |
| a failure under the request's id          | the sweeper looks at the request at once; one that was never  |
|                                           | accepted ends as `failed`                                     |
| `mark_as_revoked` of a request's id       | the request ends as `cancelled`, also one whose message was   |
|                                           | revoked, or had expired, before a worker read it              |
| `mark_as_revoked` of a bulk job's id      | the feeder cancels the job                                    |
| `get_state` of a request in flight        | PENDING: Celery revokes no task that is STARTED               |
| `apply_chord`, `set_chord_size`           | nothing: the plan holds what is expected                      |
| `add_pending_result`, `on_task_call`      | nothing for parts or in tasks: no subscription is left behind |
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from celery import states
from celery.backends.redis import RedisBackend
from celery.exceptions import ChordError, InvalidTaskError, TaskRevokedError
from chorale_client.errors import InvalidRequest
from chorale_client.keys import REVOKED, entry_key
from chorale_client.ledger import CallersLedger
from chorale_client.request import check_identifier
from chorale_client.wire_names import TASK_RETRIEVE, Reason
from kombu.exceptions import ContentDisallowed
from redis.exceptions import ConnectionError, RedisError
from structlog import get_logger

from ledger.protocol import Snapshot, Started
from ledger.redis import RedisLedger
from models.branch_result import BranchResult
from models.retries import Made, retried

log = get_logger("chorale.backend")

PART_SEPARATOR = ":"


def part_id(request_id: str, branch: str, attempt: int = 1) -> str:
    """The task id of one part, from which request, branch and attempt can be read although the message is lost."""
    again = f"{PART_SEPARATOR}{attempt}" if attempt > 1 else ""
    return f"{request_id}{PART_SEPARATOR}{branch}{again}"


def id_of_task(task_id: object) -> str:
    """The id of the request that a task brings: the task's id, or an id derived from it if it is not valid."""
    text = str(task_id)
    try:
        return check_identifier(text)
    except ValueError:
        # Half a character has no UTF-8.
        return str(uuid.uuid5(uuid.NAMESPACE_OID, text.encode(errors="backslashreplace").decode()))


REVOKED_FOR_S = 60
"""TTL of revoked ids, which the feeder reads every second."""

REPORT_FOR_S, REPORT_EVERY_S = 1.0, 0.05
"""How long, and how often, a report is tried while Redis refuses connections: a restarted server is back in a moment,
and the branch's result is worth the wait."""


class Report:
    """What a branch task returns: its result, with a short representation for logs."""

    __slots__ = ("branch_result", "started")

    def __init__(self, branch_result: BranchResult, started: Started | None = None) -> None:
        self.branch_result = branch_result
        self.started = started

    def __repr__(self) -> str:
        return f"<{self.branch_result.branch} {self.branch_result.status}>"


class LedgerBackend(RedisBackend):  # type: ignore[misc]  # Celery has no type hints
    """A Redis result backend for which the ledger keeps chords."""

    _ledger: RedisLedger | None = None

    @property
    def ledger(self) -> RedisLedger:
        if self._ledger is None:
            self._ledger = RedisLedger(self.client, signer=self.app.resources.signer)
        return self._ledger

    # The join

    def apply_chord(self, header_result_args: Any, body: Any, **kwargs: Any) -> None:
        pass

    def set_chord_size(self, group_id: str, chord_size: int) -> None:
        pass

    def on_chord_part_return(
        self, request: Any, state: str, result: Any, propagate: Any = None, **kwargs: Any
    ) -> None:
        if result is None or PART_SEPARATOR not in request.id:
            return  # nobody waits for this part any more, or it belongs to another chord
        report = result if isinstance(result, Report) else Report(failed_part(request.id, result))
        request_id = request.id.partition(PART_SEPARATOR)[0]
        self.report_all([(request_id, report.branch_result, report.started)])

    def report_all(self, reports: Sequence[tuple[str, BranchResult, Started | None]]) -> None:
        """Report for each request id, branch result and what the part was started with, where that is known."""
        called = [(*report, self.app.fanout.callback(report[0])) for report in reports]
        outcomes = _while_redis_returns(lambda: self.ledger.report_all(called))
        for (request_id, _, _), outcome in zip(reports, outcomes, strict=True):
            if outcome == "due":
                self.app.fanout.send_fuse(request_id)

    def report_and_join(self, reports: Sequence[tuple[str, BranchResult, Started | None]]) -> list[Snapshot]:
        """Report; the caller fuses the requests that are complete with it, which are returned."""
        return _while_redis_returns(lambda: self.ledger.report_and_join(reports))

    # What tasks leave behind

    def store_result(
        self, task_id: str, result: Any, state: str, traceback: Any = None, request: Any = None, **kwargs: Any
    ) -> Any:
        """Stores nothing: the results of parts and callbacks are in the ledger."""
        return result

    def mark_as_failure(
        self, task_id: str, exc: Any, traceback: Any = None, request: Any = None, **kwargs: Any
    ) -> None:
        request_id, is_part, _ = task_id.partition(PART_SEPARATOR)
        log.error("task failed", task_id=task_id, error=f"{type(exc).__name__}: {exc}"[:500])
        try:
            if is_part:
                self.report_all([(request_id, failed_part(task_id, exc), None)])
            else:
                if request is not None and request.task == TASK_RETRIEVE:
                    # Its request may never have been accepted.
                    self.app.answer_unread(task_id, InvalidRequest(f"message: {_text(exc)}"))
                self.ledger.hasten(request_id)
        except RedisError as error:
            # The sweeper ends the request without this report.
            log.error("report failed", task_id=task_id, error=str(error)[:500])

    def fail_chord(self, body: Any, why: str) -> None:
        """End the body of an application's chord, which never starts: whoever waits for its result gets ChordError.

        The id comes from the message, which anybody with a login may have made: no result and no request is overwritten.
        """
        options = body.get("options") if isinstance(body, Mapping) else None
        task_id = options.get("task_id") if isinstance(options, Mapping) else None
        if not isinstance(task_id, str) or id_of_task(task_id) != task_id:
            return
        result = self.prepare_exception(ChordError(why))
        meta = {
            "status": states.FAILURE,
            "result": result,
            "traceback": None,
            "children": [],
            "task_id": task_id,
        }
        key, value = self.get_key_for_task(task_id), self.encode(meta)
        if not self.client.exists(entry_key(task_id)) and self.client.set(
            key, value, nx=True, ex=self.expires
        ):
            self.client.publish(key, value)

    def get_state(self, task_id: str) -> str:
        state = str(super().get_state(task_id))
        return states.PENDING if state == states.STARTED else state

    def mark_as_revoked(
        self, task_id: str, reason: str = "", request: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        """Every worker that hears of the revoked id calls this, and each that takes a message with the id, or one that has
        expired."""
        is_part = PART_SEPARATOR in task_id
        ended = None if is_part else CallersLedger(self.client).cancel(task_id)
        if request is not None and request.task == TASK_RETRIEVE:
            self.app.cancel_unread(task_id)
        elif ended is None and not is_part:
            # It may be the id of a bulk job, which the feeder knows.
            self.client.sadd(REVOKED, task_id)
            self.client.expire(REVOKED, REVOKED_FOR_S)
        super().mark_as_revoked(task_id, reason, request, *args, **kwargs)

    # Nobody waits for a part

    def on_task_call(self, producer: Any, task_id: str) -> None:
        pass

    def add_pending_result(self, result: Any, weak: bool = False, start_drainer: bool = True) -> Any:
        if PART_SEPARATOR in result.id or self.app.current_worker_task is not None:
            return result
        return super().add_pending_result(result, weak=weak, start_drainer=start_drainer)

    def remove_pending_result(self, result: Any) -> Any:
        if PART_SEPARATOR in result.id:
            return result
        return super().remove_pending_result(result)


def failed_part(task_id: str, error: Any) -> BranchResult:
    """The branch result of a part that ended without one: it raised, was lost or revoked, or no worker knows its task."""
    _, branch, *again = task_id.split(PART_SEPARATOR)
    attempt = int(again[0]) if again and again[0].isdecimal() else 1
    reason = Reason.CANCELLED if isinstance(error, TaskRevokedError) else Reason.ERROR
    return BranchResult.failed(branch, reason, f"{type(error).__name__}: {error}", attempt=attempt)


def _text(error: Any) -> str:
    """What Celery says of a message; other errors need their class to be understood."""
    is_celery_error = isinstance(error, InvalidTaskError | ContentDisallowed)
    return str(error) if is_celery_error else f"{type(error).__name__}: {error}"


def _while_redis_returns(do: Callable[[], Made]) -> Made:
    return retried(do, ConnectionError, for_s=REPORT_FOR_S, pause_s=lambda _: REPORT_EVERY_S)
