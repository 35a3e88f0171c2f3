"""`chorale.index` and `chorale.delete`: documents that another process hands in, and ids, done by the one writer."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from celery import Celery
from chorale_client.keys import INDEXED
from chorale_client.reading import refusal
from chorale_client.request import check_namespace
from chorale_client.words import TASK_DELETE, TASK_INDEX, WIRE_VERSION
from pydantic_core import to_json
from redis.exceptions import RedisError
from structlog import get_logger

from models.errors import ServiceError, StoreTimeout, StoreUnavailable, WriterBusy

if TYPE_CHECKING:
    from tasks.indexing import IndexReport
    from tasks.resources import Resources

log = get_logger("chorale.index")

TOLD_FOR_S = 3_600
"""How long the outcome can be read."""
PATIENCE_S = 45.0
"""For another writer of the namespace, or a server that is away; below the minute after which the message is given
to another worker.  Waiting in its place keeps the order in which documents were handed in."""
PAUSE_S = 1.0


def register(app: Celery) -> None:
    app.task(index_task, name=TASK_INDEX, bind=True, ignore_result=True)
    app.task(delete_task, name=TASK_DELETE, bind=True, ignore_result=True)


def index_task(
    task: Any,
    namespace: str,
    documents: Sequence[Any],
    source: str = "task",
    v: int = WIRE_VERSION,
    **_: object,
) -> None:
    """Index `documents` (`{id, title, text, metadata}` each) into `namespace`; unchanged ones are left as they are.

    What is wrong is logged, told and dropped, since the message would be as wrong the next time; the rest is indexed.
    """

    def work(resources: Resources) -> IndexReport:
        # Every worker registers every task, and the readers of documents take .4 s to import.
        from ingest.read import read_rows
        from tasks.corpus import index_corpus

        rows = read_rows(documents, source=source)
        return index_corpus(resources, rows, namespace=check_namespace(namespace), source=source)

    _do(task, namespace, v, work)


def delete_task(task: Any, namespace: str, ids: Sequence[str], v: int = WIRE_VERSION, **_: object) -> None:
    """Delete documents from `namespace`, in every store; ids that are not there do no harm."""

    def work(resources: Resources) -> IndexReport:
        from tasks.corpus import delete_documents

        if isinstance(ids, str) or not all(isinstance(one, str) for one in ids):
            raise ValueError("ids are a list of texts")
        return delete_documents(resources, ids, namespace=check_namespace(namespace))

    _do(task, namespace, v, work)


def _do(task: Any, namespace: str, v: int, work: Callable[[Resources], IndexReport]) -> None:
    resources: Resources = task.app.resources
    context = {"task_id": task.request.id, "namespace": str(namespace)[:80]}
    try:
        if (why := refusal(v)) is not None:
            raise ValueError(why)
        report = _patiently(resources, work)
    except (ServiceError, ValueError, TypeError, AttributeError) as error:
        log.error("not indexed", **context, error=str(error)[:500])
        _tell(resources, task.request.id, {"namespace": context["namespace"], "error": str(error)[:500]})
        return
    for skipped in report.skipped:
        log.warning("document skipped", **context, why=str(skipped))
    for document_id, why in report.unwritten.items():
        log.warning("document not in every store", **context, document_id=document_id, why=why[:500])
    counts = {name: getattr(report, name) for name in ("added", "replaced", "unchanged", "deleted")}
    told = {
        "namespace": namespace,
        "generation": report.generation,
        **counts,
        "skipped": [str(skipped) for skipped in report.skipped],
        "unwritten": report.unwritten,
    }
    _tell(resources, task.request.id, told)


def _patiently(resources: Resources, work: Callable[[Resources], IndexReport]) -> IndexReport:
    give_up = time.monotonic() + PATIENCE_S
    while True:
        try:
            return work(resources)
        except (WriterBusy, StoreUnavailable, StoreTimeout):
            if time.monotonic() > give_up:
                raise
        time.sleep(PAUSE_S)


def _tell(resources: Resources, task_id: str, told: dict[str, Any]) -> None:
    try:
        resources.redis.set(INDEXED + task_id, to_json({"v": WIRE_VERSION, **told}), ex=TOLD_FOR_S)
    except RedisError as error:
        log.warning("nobody is told what was indexed", task_id=task_id, error=str(error)[:200])
