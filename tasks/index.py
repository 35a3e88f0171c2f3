"""`chorale.index`: documents that another process hands in, indexed by the one writer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from celery import Celery
from chorale_client.request import check_namespace
from chorale_client.words import TASK_INDEX
from structlog import get_logger

from models.errors import ServiceError

if TYPE_CHECKING:
    from tasks.resources import Resources

log = get_logger("chorale.index")


def register(app: Celery) -> None:
    app.task(index_task, name=TASK_INDEX, bind=True, ignore_result=True)


def index_task(task: Any, namespace: str, documents: Sequence[Any], source: str = "task") -> None:
    """Index `documents` (`{id, title, text, metadata}` each) into `namespace`; unchanged ones are left as they are.

    What is wrong is logged and dropped, since the message would be as wrong the next time; the rest is indexed.
    """
    # Every worker registers every task, and the readers of documents take .4 s to import.
    from ingest.read import read_rows
    from tasks.corpus import index_corpus

    resources: Resources = task.app.resources
    context = {"task_id": task.request.id, "namespace": str(namespace)[:80]}
    try:
        rows = read_rows(documents, source=source)
        report = index_corpus(resources, rows, namespace=check_namespace(namespace), source=source)
    except (ServiceError, ValueError, TypeError, AttributeError) as error:
        log.error("not indexed", **context, error=str(error)[:500])
        return
    for skipped in report.skipped:
        log.warning("document skipped", **context, why=str(skipped))
    log.info(
        "indexed",
        **context,
        added=report.added,
        replaced=report.replaced,
        unchanged=report.unchanged,
        generation=report.generation,
    )
