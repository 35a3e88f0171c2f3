"""Celery's result backend as the ledger needs it: the join of the chord is one Lua call, and the answer is the
ledger's alone to write.

`result_backend` names this class.  What Celery may call and what becomes of it:

| Celery calls                              | here                                                          |
|-------------------------------------------|---------------------------------------------------------------|
| `on_chord_part_return`, a part ended      | `report`, and the callback published if that falls to us      |
| `mark_as_failure` of an unknown task      | `report(failed)`: the part's id says whose it was             |
| `store_result` of a part or the callback  | nothing                                                       |
| a failure under the request's id          | the ledger's next moment is now: the sweeper goes on          |
| `apply_chord`, `set_chord_size`           | nothing: the plan holds what is expected                      |
| `add_pending_result`, `on_task_call`      | nothing for parts: no subscription is left behind             |
"""

from __future__ import annotations

from typing import Any

from celery.backends.redis import RedisBackend
from celery.exceptions import TaskRevokedError
from chorale_client.words import Reason
from redis.exceptions import RedisError
from structlog import get_logger

from ledger.redis import RedisLedger
from models.envelope import Envelope

log = get_logger("chorale.backend")

PART_SEPARATOR = ":"


def part_id(request_id: str, branch: str) -> str:
    """The task id of one part: the request and the branch can be read from it, whatever became of the message."""
    return f"{request_id}{PART_SEPARATOR}{branch}"


class Report:
    """What a branch task returns: its envelope, with a representation that costs nothing to log."""

    __slots__ = ("envelope",)

    def __init__(self, envelope: Envelope) -> None:
        self.envelope = envelope

    def __repr__(self) -> str:
        return f"<{self.envelope.branch} {self.envelope.status}>"


class LedgerBackend(RedisBackend):  # type: ignore[misc]  # Celery has no type hints
    """A Redis result backend for which the ledger keeps chords."""

    _ledger: RedisLedger | None = None

    @property
    def ledger(self) -> RedisLedger:
        if self._ledger is None:
            self._ledger = RedisLedger(self.client)
        return self._ledger

    # The join

    def apply_chord(self, header_result_args: Any, body: Any, **kwargs: Any) -> None:
        pass

    def set_chord_size(self, group_id: str, chord_size: int) -> None:
        pass

    def on_chord_part_return(
        self, request: Any, state: str, result: Any, propagate: Any = None, **kwargs: Any
    ) -> None:
        if isinstance(result, Report):
            envelope = result.envelope
        elif result is None:
            return  # nobody waited for this part any more
        else:
            envelope = failed_part(request.id, result)
        self._report(request.id, envelope, request.chord)

    def _report(self, task_id: str, envelope: Envelope, chord: Any) -> None:
        request_id = task_id.partition(PART_SEPARATOR)[0]
        outcome = self.ledger.report(request_id, envelope.branch, envelope)
        if outcome == "due" and chord:
            self.app.signature(chord).apply_async()

    # What tasks leave behind

    def store_result(
        self, task_id: str, result: Any, state: str, traceback: Any = None, request: Any = None, **kwargs: Any
    ) -> Any:
        """Parts and callbacks leave nothing: their results are in the ledger."""
        return result

    def mark_as_failure(
        self, task_id: str, exc: Any, traceback: Any = None, request: Any = None, **kwargs: Any
    ) -> None:
        request_id, is_part, _ = task_id.partition(PART_SEPARATOR)
        log.error("task failed", task_id=task_id, error=f"{type(exc).__name__}: {exc}"[:500])
        try:
            if is_part:
                self._report(task_id, failed_part(task_id, exc), getattr(request, "chord", None))
            else:
                self.ledger.hasten(request_id)
        except RedisError as error:
            # The sweeper ends what cannot be reported.
            log.error("report failed", task_id=task_id, error=str(error)[:500])

    # Nobody waits for a part

    def on_task_call(self, producer: Any, task_id: str) -> None:
        pass

    def add_pending_result(self, result: Any, weak: bool = False, start_drainer: bool = True) -> Any:
        if PART_SEPARATOR in result.id:
            return result
        return super().add_pending_result(result, weak=weak, start_drainer=start_drainer)

    def remove_pending_result(self, result: Any) -> Any:
        if PART_SEPARATOR in result.id:
            return result
        return super().remove_pending_result(result)


def failed_part(task_id: str, error: Any) -> Envelope:
    """The envelope of a part that ended without one: it raised, was lost, revoked, or no worker knows its task."""
    branch = task_id.partition(PART_SEPARATOR)[2]
    reason = Reason.CANCELLED if isinstance(error, TaskRevokedError) else Reason.ERROR
    return Envelope.failed(branch, reason, f"{type(error).__name__}: {error}")
