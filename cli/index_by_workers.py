"""`chorale index` by the workers of `chorale.index`: files are read here; split, embedded and written there."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from chorale_client import Chorale
from chorale_client.documents import MAX_DOCUMENT_BYTES, document_bytes
from chorale_client.errors import NotEnded
from chorale_client.words import QUEUE_INDEX

from cli.liveness import read_workers
from cli.surroundings import NotRunning
from ingest.hashes import revision_hash
from ingest.items import RawDocument, Skipped
from models.errors import ServiceError
from tasks.indexing import BATCH_CHARACTERS, IndexReport, Progress

if TYPE_CHECKING:
    from chorale_client.indexed import Indexed
    from redis import Redis

    from cli.surroundings import Surroundings

BATCH_DOCUMENTS = 64
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
    run = _Sending(around, redis, namespace, source, progress, total_documents)
    for item in items:
        run.take(item)
    run.send()
    run.wait_for(0)
    if prune:
        run.prune()
    return run.report


def check_index_worker(redis: Redis) -> None:
    if not any(QUEUE_INDEX in worker.queues for worker in read_workers(redis)):
        raise NotRunning(
            f"no worker of {QUEUE_INDEX} is alive",
            "start one with `chorale worker index`, or let this process do it with --where here",
        )


class _Sending:
    """One run: what is to be sent next, what is with the workers, and what they said."""

    def __init__(
        self,
        around: Surroundings,
        redis: Redis,
        namespace: str,
        source: str,
        progress: Callable[[Progress], None],
        total_documents: int,
    ) -> None:
        assert around.redis_url is not None
        self._client = Chorale(around.redis_url, broker_url=around.settings.broker_url)
        self._redis = redis
        self._namespace, self._source = namespace, source
        self._progress, self._total = progress, total_documents
        store = around.resources.writing_store
        is_there = any(state.name == namespace for state in store.namespaces())
        self._known: Mapping[str, str] = store.revisions(namespace, source) if is_there else {}
        self._seen: set[str] = set()
        self._rows: list[dict[str, Any]] = []
        self._characters = 0
        self._with_workers: deque[str] = deque()
        self._began_s = time.monotonic()
        self.report = IndexReport(generation=store.generation(namespace) if is_there else 0)

    def take(self, item: RawDocument | Skipped) -> None:
        if isinstance(item, Skipped):
            self.report.skipped.append(item)
        elif item.document_id in self._seen:
            why = f"the id {item.document_id!r} was there before in this run; the first one is kept"
            self.report.skipped.append(Skipped(item.path, why, item.line))
        else:
            self._seen.add(item.document_id)
            if self._known.get(item.document_id) == revision_hash(item):
                self.report.unchanged += 1
                self._tell()
                return
            row = _row(item)
            if len(item.text) > MAX_DOCUMENT_BYTES // 4 and document_bytes(row) > MAX_DOCUMENT_BYTES:
                why = f"more than {MAX_DOCUMENT_BYTES:,} bytes, which is too much for a message; --where here takes it"
                self.report.skipped.append(Skipped(item.path, why, item.line))
                return
            self._rows.append(row)
            self._characters += len(item.text)
            if len(self._rows) >= BATCH_DOCUMENTS or self._characters >= BATCH_CHARACTERS:
                self.send()

    def send(self) -> None:
        if not self._rows:
            return
        self.wait_for(AT_ONCE - 1)
        self._with_workers.append(self._client.upsert(self._namespace, self._rows, source=self._source))
        self._rows, self._characters = [], 0

    def prune(self) -> None:
        """Delete what was not read again, but what may still be in a file that could not be read."""
        spared = tuple(skipped.spares for skipped in self.report.skipped if skipped.spares is not None)
        unseen = self._known.keys() - self._seen
        gone = sorted(document_id for document_id in unseen if not document_id.startswith(spared))
        self.report.spared = len(unseen) - len(gone)
        for start in range(0, len(gone), IDS_A_MESSAGE):
            self._with_workers.append(
                self._client.delete(self._namespace, gone[start : start + IDS_A_MESSAGE])
            )
        self.wait_for(0)

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
        report = self.report
        report.added += done.added
        report.replaced += done.replaced
        report.unchanged += done.unchanged
        report.deleted += done.deleted
        report.passages += done.passages
        report.unwritten |= done.unwritten
        report.generation = max(report.generation, done.generation)
        for said in done.skipped:
            where, _, why = said.partition(": ")
            report.skipped.append(Skipped(where, why))
        self._tell()

    def _tell(self) -> None:
        report = self.report
        took_s = max(time.monotonic() - self._began_s, 1e-9)
        documents = report.added + report.replaced + report.unchanged
        left_s = max(0, self._total - documents) * took_s / documents if documents else None
        self._progress(Progress(documents, report.passages, report.passages / took_s, left_s))


def _row(item: RawDocument) -> dict[str, Any]:
    return {
        "id": item.document_id,
        "title": item.title,
        "text": item.text,
        "metadata": item.metadata,
        "markup": item.markup,
    }
