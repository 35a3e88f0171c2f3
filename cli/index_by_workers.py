"""`chorale index` by the workers of `chorale.index`: files are read here; split, embedded and written there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from chorale_client import Chorale
from chorale_client.documents import MAX_DOCUMENT_BYTES, document_bytes
from chorale_client.errors import NotEnded
from chorale_client.words import QUEUE_INDEX

from cli.liveness import read_workers
from cli.surroundings import NotRunning
from cli.writing import known
from ingest.items import RawDocument, Skipped
from models.errors import ServiceError
from tasks.indexing_run import IndexingRun, IndexReport, Progress

if TYPE_CHECKING:
    from chorale_client.indexed import Indexed
    from redis import Redis

    from cli.surroundings import Surroundings

IDS_A_MESSAGE = 1_000
AT_ONCE = 16
"""Messages that are with the workers at a time: enough for several of them, and little is left behind by Ctrl-C."""
LOOK_FOR_WORKERS_S = 5.0


class NotIndexed(ServiceError):
    """The workers refused what was sent; the message is theirs."""


def index_by_workers(
    around: Surroundings,
    items: Iterable[RawDocument | Skipped],
    *,
    namespace: str,
    source: str,
    prune: bool,
    progress: Callable[[Progress], None],
    total_documents: int,
) -> IndexReport:
    """Send what is new or changed, wait until every store shows it, and report.

    What was sent stays in the queue whatever becomes of this process.  Raises NotRunning where no worker of
    `chorale.index` is alive, NotIndexed, and what the client raises.
    """
    redis = around.running_redis()
    check_index_worker(redis)
    store = around.resources.writing_store
    state = known(store, namespace)
    before = store.revisions(namespace, source) if state else {}
    run = IndexingRun(source, before, progress, total_documents)
    run.report.generation = state.generation if state else 0
    sending = _Sending(around, redis, namespace, run)
    for batch in run.batches(items):
        sending.upsert([item for item, _ in batch])
    sending.wait_for(0)
    if prune:
        sending.delete(run.gone())
        sending.wait_for(0)
    return run.report


def check_index_worker(redis: Redis) -> None:
    if not any(QUEUE_INDEX in worker.queues for worker in read_workers(redis)):
        raise NotRunning(
            f"no worker of {QUEUE_INDEX} is alive",
            "start one with `chorale worker index`, or let this process do it with --where here",
        )


class _Sending:
    """What of one run is with the workers, and what they said."""

    def __init__(self, around: Surroundings, redis: Redis, namespace: str, run: IndexingRun) -> None:
        assert around.redis_url is not None
        self._client = Chorale(around.redis_url, broker_url=around.settings.broker_url)
        self._redis = redis
        self._namespace, self._run = namespace, run
        self._with_workers: deque[str] = deque()

    def upsert(self, items: Iterable[RawDocument]) -> None:
        rows = []
        for item in items:
            row = _row(item)
            if len(item.text) > MAX_DOCUMENT_BYTES // 4 and document_bytes(row) > MAX_DOCUMENT_BYTES:
                why = f"more than {MAX_DOCUMENT_BYTES:,} bytes, which is too much for a message; --where here takes it"
                self._run.report.skipped.append(Skipped(item.path, why, item.line))
            else:
                rows.append(row)
        if rows:
            self.wait_for(AT_ONCE - 1)
            self._with_workers.append(self._client.upsert(self._namespace, rows, source=self._run.source))

    def delete(self, ids: Sequence[str]) -> None:
        for start in range(0, len(ids), IDS_A_MESSAGE):
            part = ids[start : start + IDS_A_MESSAGE]
            self._with_workers.append(self._client.delete(self._namespace, part))

    def wait_for(self, left: int) -> None:
        """Until no more than so many messages are with the workers."""
        while len(self._with_workers) > left:
            try:
                done = self._client.wait_visible(self._with_workers[0], wait_s=LOOK_FOR_WORKERS_S)
            except NotEnded:
                check_index_worker(self._redis)
                continue
            self._with_workers.popleft()
            self._add(done)

    def _add(self, done: Indexed) -> None:
        if done.error is not None:
            raise NotIndexed(done.error)
        report = self._run.report
        report.added += done.added
        report.replaced += done.replaced
        report.unchanged += done.unchanged
        report.deleted += done.deleted
        report.unwritten |= done.unwritten
        report.generation = max(report.generation, done.generation)
        for said in done.skipped:
            where, _, why = said.partition(": ")
            report.skipped.append(Skipped(where, why))
        self._run.tell(done.passages)


def _row(item: RawDocument) -> dict[str, Any]:
    return {
        "id": item.document_id,
        "title": item.title,
        "text": item.text,
        "metadata": item.metadata,
        "markup": item.markup,
    }
