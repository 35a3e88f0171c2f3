"""One message of `chorale.index`: its place in the order of writes, its outcome for the caller, its return to the queue."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from celery.exceptions import Reject
from chorale_client.errors import display_name
from chorale_client.index_tickets import KEPT_S, stamp_of_message
from chorale_client.keys import INDEXED, NOT_DONE, waiting_key
from chorale_client.publisher import send_confirmed
from chorale_client.wire_names import QUEUE_INDEX, WIRE_VERSION
from kombu.exceptions import KombuError
from pydantic_core import from_json, to_json
from redis.exceptions import RedisError
from structlog import get_logger

from ledger import ledger_scripts
from models.errors import ModelMissing, StageFailure, StoreTimeout, StoreUnavailable, WriterBusy
from tasks.indexing.message_order import OUTCOME_KEPT_S, WriteOrder

if TYPE_CHECKING:
    from tasks.indexing.indexing_run import IndexReport
    from wiring.resources import Resources

log = get_logger("chorale.index")

PASSING = (WriterBusy, StoreUnavailable, StoreTimeout, ModelMissing, RedisError, OSError)
"""Failures after which a message is tried again, for KEPT_S.  OSError: a full disk, for example, is no fault of the
documents."""


@dataclass(slots=True)
class IndexMessage:
    """One message of `chorale.index`; reports its result to the caller that waits."""

    task: Any
    namespace: str
    handed_in: int | None
    so_far: Any = None
    """How much of it earlier turns have done (`tasks.indexing.handed_in_documents.Unfinished`)."""

    @property
    def id(self) -> str:
        """The task id, which is the caller's ticket."""
        return str(self.task.request.id)

    @property
    def resources(self) -> Resources:
        return cast("Resources", self.task.app.resources)

    @property
    def context(self) -> dict[str, str]:
        return {"task_id": self.id, "namespace": display_name(self.namespace)}

    def write_order(self) -> WriteOrder | None:
        """None for a message that was delivered twice and is done.  Raises RedisError."""
        redis = self.resources.redis
        ticket: str | None = None
        if self.handed_in is None:
            self.handed_in = stamp_of_message(redis, self.namespace, self.id)
        else:
            # In this order: one script writes the outcome and removes the note.
            if redis.zscore(NOT_DONE + self.namespace, self.id) is not None:
                ticket = self.id
            if self._has_outcome():
                return None
        return WriteOrder(redis, self.namespace, int(self.handed_in), ticket=ticket)

    def _has_outcome(self) -> bool:
        # The stamp is compared too: a program without our client may use an id again.
        outcome = self.resources.redis.get(INDEXED + self.id)
        return outcome is not None and from_json(cast("bytes", outcome)).get("handed_in") == self.handed_in

    def failed(self, error: Exception) -> None:
        """Put the message back if waiting helps; otherwise tell the caller the error."""
        # The caller learns no place and no other namespace; the log does.
        detail = error.detail if isinstance(error, StageFailure) else str(error)
        # A message may have half characters, which JSON cannot hold.
        message = detail[:500].encode(errors="backslashreplace").decode() or type(error).__name__
        if isinstance(error, PASSING) and not self._is_old():
            log.warning("not indexed yet", **self.context, error=str(error)[:500])
            # First, since another worker may have the message at once.
            with suppress(RedisError):
                why = to_json({"v": WIRE_VERSION, "waiting": message})
                self.resources.redis.set(waiting_key(self.id), why, ex=KEPT_S)
            self.put_back()
            return
        log.error("not indexed", **self.context, error=str(error)[:500], kind=type(error).__name__)
        self._publish(self.context["namespace"], {"error": message})

    def done(self, report: IndexReport) -> None:
        for skipped in report.skipped:
            log.warning("document skipped", **self.context, reason=skipped.reason, why=str(skipped))
        for document_id, why in report.unwritten.items():
            log.warning("document not in every store", **self.context, document_id=document_id, why=why[:500])
        self._publish(self.namespace, report.to_wire())

    def _is_old(self) -> bool:
        try:
            now_s, _ = self.resources.redis.time()
        except RedisError:
            return False
        return self.handed_in is not None and now_s - self.handed_in / 1_000_000 > KEPT_S

    def put_back(self) -> None:
        """Put the message at the end of its queue.

        The broker has the new message before this one is acknowledged: a message may come twice, and is never lost.
        """
        try:
            send_confirmed(
                self.task.app,
                self.task.name,
                args=self.task.request.args,
                kwargs={**self.task.request.kwargs, "handed_in": self.handed_in, "so_far": self.so_far},
                task_id=self.id,
                queue=QUEUE_INDEX,
                ignore_result=True,
                argsrepr="()",
                kwargsrepr="{}",
            )
        except (KombuError, RedisError, OSError) as error:
            raise Reject(str(error), requeue=True) from error

    def _publish(self, namespace: str, outcome: dict[str, Any]) -> None:
        reply = {"v": WIRE_VERSION, "namespace": namespace, "handed_in": self.handed_in, **outcome}
        keys = [waiting_key(self.id), NOT_DONE + namespace, INDEXED + self.id]
        args = [self.id, str(self.handed_in), to_json(reply), OUTCOME_KEPT_S]
        try:
            ledger_scripts(self.resources.redis).run("tell_indexed", keys, args)
        except RedisError as error:
            log.warning("nobody is told what was indexed", task_id=self.id, error=str(error)[:200])
