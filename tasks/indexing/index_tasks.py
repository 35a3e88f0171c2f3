"""The tasks `chorale.index` and `chorale.delete`, for documents and ids that another process hands in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from celery import Celery
from celery.exceptions import Reject
from chorale_client.errors import display_name, safe_repr
from chorale_client.index_tickets import MESSAGE_TTL_S, stamp_of_message
from chorale_client.keys import INDEXED, NOT_DONE, waiting_key
from chorale_client.publisher import send_confirmed
from chorale_client.request import check_namespace
from chorale_client.wire_names import QUEUE_INDEX, TASK_DELETE, TASK_INDEX, WIRE_VERSION
from chorale_client.wire_reader import refusal
from kombu.exceptions import KombuError
from pydantic_core import from_json, to_json
from redis.exceptions import RedisError
from structlog import get_logger

from config.redis_client import is_transient
from ledger import ledger_scripts
from models.errors import ModelMissing, ServiceError, StageFailure, StoreTimeout, StoreUnavailable, WriterBusy
from models.retries import retried
from tasks.indexing.message_order import OUTCOME_TTL_S, DoneByAnother, TurnOver, Turns, WriteOrder, turn_s

if TYPE_CHECKING:
    from tasks.indexing.indexing_run import IndexReport
    from tasks.wiring.resources import Resources


log = get_logger("chorale.index")

TRANSIENT = (WriterBusy, StoreUnavailable, StoreTimeout, ModelMissing, RedisError, OSError)
"""Failures after which a message is tried again, for MESSAGE_TTL_S.  OSError: a full disk, for example, is no fault of the
documents."""
EXPECTED = (*TRANSIENT, ServiceError, ValueError)
"""Failures whose message is written for callers."""
UNEXPECTED = "an unexpected error; the log of the worker has it"


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
        is_expected = isinstance(error, EXPECTED)
        # The caller learns no place and no other namespace; the log does.
        detail = error.detail if isinstance(error, StageFailure) else str(error) if is_expected else ""
        # A message may have half characters, which JSON cannot hold.
        message = detail[:500].encode(errors="backslashreplace").decode() or UNEXPECTED
        if isinstance(error, TRANSIENT) and not self._is_old():
            log.warning("not indexed yet", **self.context, error=str(error)[:500])
            # First, since another worker may have the message at once.
            with suppress(RedisError):
                why = to_json({"v": WIRE_VERSION, "waiting": message})
                self.resources.redis.set(waiting_key(self.id), why, ex=MESSAGE_TTL_S)
            self.put_back()
            return
        trace = None if is_expected else error
        log.error(
            "not indexed", **self.context, error=str(error)[:500], kind=type(error).__name__, exc_info=trace
        )
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
        return self.handed_in is not None and now_s - self.handed_in / 1_000_000 > MESSAGE_TTL_S

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
        args = [self.id, str(self.handed_in), to_json(reply), OUTCOME_TTL_S]
        scripts = ledger_scripts(self.resources.redis)
        try:
            retried(
                lambda: scripts.run("publish_indexed", keys, args),
                RedisError,
                for_s=PATIENCE_S,
                pause_s=lambda _: PAUSE_S,
            )
        except RedisError as error:
            log.warning("no outcome recorded", **self.context, error=str(error)[:200])
            if is_transient(error):
                raise Reject(str(error), requeue=True) from error


PATIENCE_S = 5.0
"""How long a message waits for another writer of its namespace, or a server that is away.  Then it goes to the end of
its queue, so that messages of other namespaces wait no longer."""
PAUSE_S = 1.0
PAUSE_FOR_A_WRITER_S = 0.1
"""Shorter: a writer has embedded its documents beforehand, and holds the namespace only while stores write."""


def register(app: Celery) -> None:
    app.task(index_task, name=TASK_INDEX, bind=True, ignore_result=True)
    app.task(delete_task, name=TASK_DELETE, bind=True, ignore_result=True)
    app.turns = Turns(partial(turn_s, app.resources))
    app.unfinished = {}


def index_task(
    task: Any,
    namespace: str = "",
    documents: Sequence[Any] | None = None,
    source: str = "task",
    v: int = WIRE_VERSION,
    handed_in: int | None = None,
    so_far: Any = None,
    encoder: str | None = None,
    *_: object,
    **__: object,
) -> None:
    """Index `documents` (`{id, title, text, metadata}` each) into `namespace`; unchanged ones are left as they are.

    Wrong documents are logged, reported and dropped, since they would be as wrong the next time; the others are indexed.
    `handed_in` is a stamp of `chorale_client.index_tickets`: documents that were handed in later are not written over.
    `so_far` comes with a message that a worker has put back.  `encoder` names that of a namespace that is not there yet.
    """

    def work(message: IndexMessage, order: WriteOrder) -> IndexReport:
        # Here, since every worker registers every task, and the readers of documents take 0.4 s to import.
        from tasks.indexing.handed_in_documents import UnfinishedMessages, index_handed_in

        if documents is None:
            raise ValueError("documents: missing")
        if encoder is not None and not isinstance(encoder, str):
            raise ValueError(f"encoder: a name, not {safe_repr(encoder)}")
        messages = UnfinishedMessages(task.app.unfinished)
        # A program without our client may use an id again.
        ticket = f"{message.id} {message.handed_in}"
        unfinished = messages.take(ticket, message.so_far)
        try:
            return index_handed_in(
                message.resources,
                unfinished,
                order,
                documents,
                namespace=namespace,
                source=source,
                encoder=encoder,
                is_over=partial(task.app.turns.is_over, namespace),
                has_capacity=messages.has_capacity,
            )
        except Exception:
            messages.keep(ticket, unfinished)
            message.so_far = unfinished.to_wire()
            raise

    _do(task, namespace, v, handed_in, work, so_far)


def delete_task(
    task: Any,
    namespace: str = "",
    ids: Sequence[str] = (),
    whole_namespace: bool = False,
    v: int = WIRE_VERSION,
    handed_in: int | None = None,
    *_: object,
    **__: object,
) -> None:
    """Delete documents from `namespace`, in every store; unknown and wrong ids do no harm.  With `whole_namespace`, delete
    the namespace with everything in it."""

    def work(message: IndexMessage, order: WriteOrder) -> IndexReport:
        from ingest.read import read_ids
        from tasks.indexing.namespace_writer import delete_documents, drop_namespace

        if whole_namespace is True:
            return drop_namespace(message.resources, check_namespace(namespace), order)
        document_ids, skipped = read_ids(ids)
        report = delete_documents(
            message.resources, document_ids, namespace=check_namespace(namespace), order=order
        )
        report.skipped += skipped
        return report

    _do(task, namespace, v, handed_in, work)


def _do(
    task: Any,
    namespace: str,
    v: int,
    handed_in: int | None,
    work: Callable[[IndexMessage, WriteOrder], IndexReport],
    so_far: Any = None,
) -> None:
    is_stamp = handed_in is None or (type(handed_in) is int and 0 <= handed_in < 2**53)
    message, turns = IndexMessage(task, namespace, handed_in if is_stamp else None, so_far), task.app.turns
    order: WriteOrder | None = None
    report: IndexReport | None = None
    try:
        if (why := refusal(v)) is not None:
            raise ValueError(why)
        if not is_stamp:
            raise ValueError(f"handed_in: microseconds, not {safe_repr(handed_in)}")
        check_namespace(namespace)
        order = message.write_order()
        if order is None:
            return
        if turns.is_on(namespace, message.id):
            with turns.working(namespace, message.id):
                report = retried(
                    partial(work, message, order), *TRANSIENT, for_s=PATIENCE_S, pause_s=_pause_s
                )
    except TurnOver:
        pass
    except DoneByAnother:
        return
    except Exception as error:
        with suppress(RedisError):
            if order is not None and order.is_done():
                return
        message.failed(error)
        return
    if report is not None:
        message.done(report)
        return
    with turns.putting_back():
        message.put_back()


def _pause_s(error: Exception) -> float:
    return PAUSE_FOR_A_WRITER_S if isinstance(error, WriterBusy) else PAUSE_S
