"""The tasks `chorale.index` and `chorale.delete`, for documents and ids that another process hands in."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from celery import Celery
from chorale_client.reading import refusal
from chorale_client.request import check_namespace
from chorale_client.words import TASK_DELETE, TASK_INDEX, WIRE_VERSION
from redis.exceptions import RedisError

from models.errors import WriterBusy
from tasks.indexing.index_message import PASSING, IndexMessage
from tasks.indexing.write_order import DoneByAnother, WriteOrder

if TYPE_CHECKING:
    from assembly.resources import Resources
    from tasks.indexing.embedding_ahead import EmbeddedAhead
    from tasks.indexing.report import IndexReport

PATIENCE_S = 5.0
"""How long a message waits for another writer of its namespace, or a server that is away.  Then it goes to the end of
its queue, so that messages of other namespaces wait no longer."""
PAUSE_S = 1.0
PAUSE_FOR_A_WRITER_S = 0.1
"""Shorter: a writer has embedded its documents beforehand, and holds the namespace only while stores write."""


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
        from tasks.indexing.indexing_run import SourceDocuments
        from tasks.indexing.namespace_writer import index_corpus

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
    message = IndexMessage(task, namespace, handed_in)
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


def _patiently(work: Callable[[], IndexReport]) -> IndexReport:
    give_up = time.monotonic() + PATIENCE_S
    while True:
        try:
            return work()
        except PASSING as error:
            if time.monotonic() > give_up:
                raise
            pause_s = PAUSE_FOR_A_WRITER_S if isinstance(error, WriterBusy) else PAUSE_S
        time.sleep(pause_s)
