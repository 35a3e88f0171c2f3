"""The tasks `chorale.index` and `chorale.delete`, for documents and ids that another process hands in."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from celery import Celery
from celery.exceptions import Reject
from chorale_client.confirmed import send_confirmed
from chorale_client.handed_in import KEPT_S, stamp_of_message
from chorale_client.keys import INDEXED, NOT_DONE, waiting_key
from chorale_client.reading import refusal
from chorale_client.request import check_namespace
from chorale_client.words import QUEUE_INDEX, TASK_DELETE, TASK_INDEX, WIRE_VERSION
from kombu.exceptions import KombuError
from pydantic_core import from_json, to_json
from redis.exceptions import RedisError
from structlog import get_logger

from ledger.lua import ledger_scripts
from models.errors import ModelMissing, StoreTimeout, StoreUnavailable, WriterBusy
from tasks.indexing.write_order import TOLD_FOR_S, DoneByAnother, WriteOrder

if TYPE_CHECKING:
    from assembly.resources import Resources
    from tasks.indexing.embedding_ahead import EmbeddedAhead
    from tasks.indexing.report import IndexReport

log = get_logger("chorale.index")

PATIENCE_S = 5.0
"""How long a message waits for another writer of its namespace, or a server that is away.  Then it goes to the end of
its queue, so that messages of other namespaces wait no longer."""
PAUSE_S = 1.0
PAUSE_FOR_A_WRITER_S = 0.1
"""Shorter: a writer has embedded its documents beforehand, and holds the namespace only while stores write."""

_PASSING = (WriterBusy, StoreUnavailable, StoreTimeout, ModelMissing, RedisError, OSError)
"""Failures after which a message is tried again, for KEPT_S.  OSError: a full disk, for example, is no fault of the
documents."""


def register(app: Celery) -> None:
    app.task(index_task, name=TASK_INDEX, bind=True, ignore_result=True)
    app.task(delete_task, name=TASK_DELETE, bind=True, ignore_result=True)


def index_task(
    task: Any,
    namespace: str,
    documents: Sequence[Any],
    source: str = "task",
    v: int = WIRE_VERSION,
    handed_in: int | None = None,
    **_: object,
) -> None:
    """Index `documents` (`{id, title, text, metadata}` each) into `namespace`; unchanged ones are left as they are.

    Wrong documents are logged, reported and dropped, since they would be as wrong the next time; the others are indexed.
    `handed_in` is a stamp of `chorale_client.handed_in`: documents that were handed in later are not written over.
    """

    ahead: EmbeddedAhead | None = None

    def work(resources: Resources, order: WriteOrder) -> IndexReport:
        # Here, since every worker registers every task, and the readers of documents take 0.4 s to import.
        from ingest.handed_in import last_of_each, read_rows
        from tasks.indexing.embedding_ahead import EmbeddedAhead
        from tasks.indexing.namespace_writer import index_corpus
        from tasks.indexing.run import SourceDocuments

        nonlocal ahead
        ahead = ahead or EmbeddedAhead(resources.indexing_embedder)
        rows = SourceDocuments(last_of_each(read_rows(documents, source=source)), source)
        return index_corpus(resources, rows, namespace=check_namespace(namespace), order=order, ahead=ahead)

    _do(task, namespace, v, handed_in, work)


def delete_task(
    task: Any,
    namespace: str,
    ids: Sequence[str],
    v: int = WIRE_VERSION,
    handed_in: int | None = None,
    **_: object,
) -> None:
    """Delete documents from `namespace`, in every store; unknown and wrong ids do no harm."""

    def work(resources: Resources, order: WriteOrder) -> IndexReport:
        from ingest.handed_in import read_ids
        from tasks.indexing.namespace_writer import delete_documents

        wanted, skipped = read_ids(ids)
        report = delete_documents(resources, wanted, namespace=check_namespace(namespace), order=order)
        report.skipped += skipped
        return report

    _do(task, namespace, v, handed_in, work)


def _do(
    task: Any,
    namespace: str,
    v: int,
    handed_in: int | None,
    work: Callable[[Resources, WriteOrder], IndexReport],
) -> None:
    message = _Message(task, namespace, handed_in)
    order: WriteOrder | None = None
    try:
        if (why := refusal(v)) is not None:
            raise ValueError(why)
        check_namespace(namespace)
        order = message.write_order()
        if order is None:
            return
        report = _patiently(partial(work, task.app.resources, order))
    except DoneByAnother:
        return
    except Exception as error:
        with suppress(RedisError):
            if order is not None and order.is_done():
                return
        message.failed(error)
    else:
        message.done(report)


@dataclass(slots=True)
class _Message:
    """One message of `chorale.index`, and who is told what became of it."""

    task: Any
    namespace: str
    handed_in: int | None

    @property
    def id(self) -> str:
        """The task id, which is the caller's ticket."""
        return str(self.task.request.id)

    @property
    def resources(self) -> Resources:
        return cast("Resources", self.task.app.resources)

    @property
    def context(self) -> dict[str, str]:
        return {"task_id": self.id, "namespace": str(self.namespace)[:80]}

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
        told = self.resources.redis.get(INDEXED + self.id)
        return told is not None and from_json(cast("bytes", told)).get("handed_in") == self.handed_in

    def failed(self, error: Exception) -> None:
        """Put the message back if waiting helps; else the caller is told the error."""
        said = str(error)[:500] or type(error).__name__
        if isinstance(error, _PASSING) and not self._is_old():
            log.warning("not indexed yet", **self.context, error=said)
            # First, since another worker may have the message at once.
            _tell_why_it_waits(self.resources, self.id, said)
            self._put_back()
            return
        log.error("not indexed", **self.context, error=said, kind=type(error).__name__)
        outcome = {"namespace": self.context["namespace"], "handed_in": self.handed_in, "error": said}
        _tell(self.resources, self.id, outcome)

    def done(self, report: IndexReport) -> None:
        for skipped in report.skipped:
            log.warning("document skipped", **self.context, why=str(skipped))
        for document_id, why in report.unwritten.items():
            log.warning("document not in every store", **self.context, document_id=document_id, why=why[:500])
        outcome = {"namespace": self.namespace, "handed_in": self.handed_in, **report.to_wire()}
        _tell(self.resources, self.id, outcome)

    def _is_old(self) -> bool:
        try:
            now_s, _ = self.resources.redis.time()
        except RedisError:
            return False
        return self.handed_in is not None and now_s - self.handed_in / 1_000_000 > KEPT_S

    def _put_back(self) -> None:
        """To the end of its queue.

        The broker has the new message before this one is acknowledged: a message may come twice, and is never lost.
        """
        try:
            send_confirmed(
                self.task.app,
                self.task.name,
                args=self.task.request.args,
                kwargs={**self.task.request.kwargs, "handed_in": self.handed_in},
                task_id=self.id,
                queue=QUEUE_INDEX,
                ignore_result=True,
                argsrepr="()",
                kwargsrepr="{}",
            )
        except (KombuError, RedisError, OSError) as error:
            raise Reject(str(error), requeue=True) from error


def _patiently(work: Callable[[], IndexReport]) -> IndexReport:
    give_up = time.monotonic() + PATIENCE_S
    while True:
        try:
            return work()
        except _PASSING as error:
            if time.monotonic() > give_up:
                raise
            pause_s = PAUSE_FOR_A_WRITER_S if isinstance(error, WriterBusy) else PAUSE_S
        time.sleep(pause_s)


def _tell_why_it_waits(resources: Resources, task_id: str, why: str) -> None:
    with suppress(RedisError):
        resources.redis.set(waiting_key(task_id), to_json({"v": WIRE_VERSION, "waiting": why}), ex=KEPT_S)


def _tell(resources: Resources, task_id: str, told: dict[str, Any]) -> None:
    try:
        ledger_scripts(resources.redis).run(
            "tell_indexed",
            [waiting_key(task_id), NOT_DONE + told["namespace"], INDEXED + task_id],
            [task_id, str(told["handed_in"]), to_json({"v": WIRE_VERSION, **told}), TOLD_FOR_S],
        )
    except RedisError as error:
        log.warning("nobody is told what was indexed", task_id=task_id, error=str(error)[:200])
