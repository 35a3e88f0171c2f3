"""The tasks `chorale.index` and `chorale.delete`, for documents and ids that another process hands in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from celery import Celery
from chorale_client.errors import safe_repr
from chorale_client.request import check_namespace
from chorale_client.wire_names import TASK_DELETE, TASK_INDEX, WIRE_VERSION
from chorale_client.wire_reader import refusal
from redis.exceptions import RedisError

from models.duty import retried
from models.errors import WriterBusy
from tasks.indexing.index_message import PASSING, IndexMessage
from tasks.indexing.message_order import DoneByAnother, TurnOver, Turns, WriteOrder, turn_s

if TYPE_CHECKING:
    from tasks.indexing.indexing_run import IndexReport

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
        kept = UnfinishedMessages(task.app.unfinished)
        # A program without our client may use an id again.
        ticket = f"{message.id} {message.handed_in}"
        unfinished = kept.take(ticket, message.so_far)
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
                has_room=kept.has_room,
            )
        except Exception:
            kept.keep(ticket, unfinished)
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
            return drop_namespace(message.resources, check_namespace(namespace))
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
                report = retried(partial(work, message, order), *PASSING, for_s=PATIENCE_S, pause_s=_pause_s)
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
    with turns.passing():
        message.put_back()


def _pause_s(error: Exception) -> float:
    return PAUSE_FOR_A_WRITER_S if isinstance(error, WriterBusy) else PAUSE_S
