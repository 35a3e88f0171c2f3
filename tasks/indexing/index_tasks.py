"""`chorale.index` and `chorale.delete`: documents that another process hands in, and ids, done by the one writer."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
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

from models.errors import ModelMissing, StoreTimeout, StoreUnavailable, WriterBusy
from tasks.indexing.write_order import TOLD_FOR_S, DoneByAnother, WriteOrder

if TYPE_CHECKING:
    from assembly.resources import Resources
    from tasks.indexing.embedding_ahead import EmbeddedAhead
    from tasks.indexing.run import IndexReport

log = get_logger("chorale.index")

PATIENCE_S = 5.0
"""For another writer of the namespace, or a server that is away.  Then the message goes to the end of its queue:
those of other namespaces wait no longer than that for it."""
PAUSE_S = 1.0
PAUSE_FOR_A_WRITER_S = 0.1
"""Its documents are embedded before; it holds the namespace for as long as the stores take."""

_TELL = """
-- KEYS  why it waits, messages that are not done, its outcome
-- ARGV  message's ticket, its stamp, outcome, kept for (s)
-- A deletion stands first: Redis refuses writes over `maxmemory` only to a script that has not written yet.
redis.call('DEL', KEYS[1])
-- A program without our client may use an id again, while it is not done.
local noted = redis.call('ZSCORE', KEYS[2], ARGV[1])
if noted and tonumber(noted) <= tonumber(ARGV[2]) then redis.call('ZREM', KEYS[2], ARGV[1]) end
redis.call('SET', KEYS[3], ARGV[3], 'EX', ARGV[4])
"""

_PASSING = (WriterBusy, StoreUnavailable, StoreTimeout, ModelMissing, RedisError, OSError)
"""A message that fails so is tried again, for a day.  OSError: of a full disk, among others, documents know nothing."""


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

    What is wrong is logged, told and dropped, since the message would be as wrong the next time; the rest is indexed.
    `handed_in` is a stamp of `chorale_client.handed_in`: what was handed in later is not written over.
    """

    ahead: EmbeddedAhead | None = None

    def work(resources: Resources, order: WriteOrder) -> IndexReport:
        # Every worker registers every task, and the readers of documents take .4 s to import.
        from ingest.handed_in import last_of_each, read_rows
        from tasks.indexing.embedding_ahead import EmbeddedAhead
        from tasks.indexing.namespace_writer import index_corpus

        nonlocal ahead
        ahead = ahead or EmbeddedAhead(resources.indexing_embedder)
        rows = last_of_each(read_rows(documents, source=source))
        return index_corpus(
            resources, rows, namespace=check_namespace(namespace), source=source, order=order, ahead=ahead
        )

    _do(task, namespace, v, handed_in, work)


def delete_task(
    task: Any,
    namespace: str,
    ids: Sequence[str],
    v: int = WIRE_VERSION,
    handed_in: int | None = None,
    **_: object,
) -> None:
    """Delete documents from `namespace`, in every store; ids that are not there, or are none, do no harm."""

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
    from tasks.indexing.run import skipped_to_wire  # here, as in `index_task`

    resources: Resources = task.app.resources
    context = {"task_id": task.request.id, "namespace": str(namespace)[:80]}
    order: WriteOrder | None = None
    try:
        if (why := refusal(v)) is not None:
            raise ValueError(why)
        check_namespace(namespace)
        ticket: str | None = None
        if handed_in is None:
            handed_in = stamp_of_message(resources.redis, namespace, task.request.id)
        else:
            # Before it is asked whether it was told: it is told and taken from there at once.
            if resources.redis.zscore(NOT_DONE + namespace, task.request.id) is not None:
                ticket = task.request.id
            if _is_told(resources, task.request.id, handed_in):
                # It came twice, and is not kept in order any more.
                return
        order = known = WriteOrder(resources.redis, namespace, int(handed_in), ticket=ticket)
        report = _patiently(lambda: work(resources, known))
    except DoneByAnother:
        return
    except Exception as error:
        with suppress(RedisError):
            if order is not None and order.is_done():
                return
        said = str(error)[:500] or type(error).__name__
        if isinstance(error, _PASSING) and not _is_old(resources, handed_in):
            log.warning("not indexed yet", **context, error=said)
            # Before another worker can have it.
            _tell_why_it_waits(resources, task.request.id, said)
            _put_back(task, handed_in)
            return
        log.error("not indexed", **context, error=said, kind=type(error).__name__)
        told = {"namespace": context["namespace"], "handed_in": handed_in, "error": said}
        _tell(resources, task.request.id, told)
        return
    for skipped in report.skipped:
        log.warning("document skipped", **context, why=str(skipped))
    for document_id, why in report.unwritten.items():
        log.warning("document not in every store", **context, document_id=document_id, why=why[:500])
    counts = {
        name: getattr(report, name) for name in ("added", "replaced", "unchanged", "deleted", "passages")
    }
    told = {
        "namespace": namespace,
        "handed_in": handed_in,
        "generation": report.generation,
        **counts,
        "skipped": [str(skipped) for skipped in report.skipped],
        "left_out": [skipped_to_wire(skipped) for skipped in report.skipped],
        "unwritten": report.unwritten,
    }
    _tell(resources, task.request.id, told)


def _is_told(resources: Resources, task_id: str, handed_in: int) -> bool:
    # By the stamp too: a program without our client may use an id again.
    told = resources.redis.get(INDEXED + task_id)
    return told is not None and from_json(cast("bytes", told)).get("handed_in") == handed_in


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


def _is_old(resources: Resources, handed_in: int | None) -> bool:
    try:
        now_s, _ = resources.redis.time()
    except RedisError:
        return False
    return handed_in is not None and now_s - handed_in / 1_000_000 > KEPT_S


def _put_back(task: Any, handed_in: int | None) -> None:
    """To the end of its queue.  The broker has it before this one is acknowledged: it may come twice, and is never
    lost."""
    try:
        send_confirmed(
            task.app,
            task.name,
            args=task.request.args,
            kwargs={**task.request.kwargs, "handed_in": handed_in},
            task_id=task.request.id,
            queue=QUEUE_INDEX,
            ignore_result=True,
            argsrepr="()",
            kwargsrepr="{}",
        )
    except (KombuError, RedisError, OSError) as error:
        raise Reject(str(error), requeue=True) from error


def _tell_why_it_waits(resources: Resources, task_id: str, why: str) -> None:
    with suppress(RedisError):
        resources.redis.set(waiting_key(task_id), to_json({"v": WIRE_VERSION, "waiting": why}), ex=KEPT_S)


def _tell(resources: Resources, task_id: str, told: dict[str, Any]) -> None:
    try:
        resources.redis.register_script(_TELL)(
            keys=[waiting_key(task_id), NOT_DONE + told["namespace"], INDEXED + task_id],
            args=[task_id, str(told["handed_in"]), to_json({"v": WIRE_VERSION, **told}), TOLD_FOR_S],
        )
    except RedisError as error:
        log.warning("nobody is told what was indexed", task_id=task_id, error=str(error)[:200])
