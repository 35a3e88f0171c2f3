"""`chorale index` through workers: this process reads the files; the workers of `chorale.index` embed and write."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any, cast

from chorale_client.connections.urls import celery_url
from chorale_client.documents import write_document
from chorale_client.errors import NoRoom
from chorale_client.index_tickets import KEPT_S
from chorale_client.keys import INDEXED, NOT_DONE, SENT, waiting_key
from chorale_client.publisher import BROKER_ERRORS
from chorale_client.wire_names import QUEUE_INDEX
from pydantic_core import from_json

from cli.installation import NotRunning
from cli.namespace_states import known
from config.celery import is_redis
from ingest.raw_documents import RawDocument, Skipped
from ledger import ledger_scripts
from models.errors import ServiceError
from models.not_indexed import NotIndexed
from monitoring.heartbeats import read_heartbeats
from monitoring.queues import queue_states
from tasks.indexing.indexing_run import BATCH_DOCUMENTS, IndexingRun, IndexReport, Progress, SourceDocuments

if TYPE_CHECKING:
    from cli.installation import Installation


LOOK_AGAIN_S = 0.05
LOOK_FOR_WORKERS_S = 5.0
GIVE_UP_S = 60.0
"""How long to wait for a worker; a restarted one is ready after a quarter of it."""
LOST_AFTER_S = 180.0
"""While workers are alive, a message counts as lost if neither queue nor worker has had it this long.

The message of a killed worker is in the queue again after a minute."""

Outcome = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class IndexQueue:
    """The queue that this process sends to, at one moment."""

    trouble: NotRunning | None
    """Why no worker takes the messages; None if one does."""
    is_empty: bool
    in_hand: frozenset[str]
    """Messages that workers are busy with."""


def index_queue(installation: Installation) -> IndexQueue:
    """Raises NotRunning, RedisError."""
    redis, broker_url = installation.running_redis(), installation.settings.broker_url
    workers = [worker for worker in read_heartbeats(redis) if QUEUE_INDEX in worker.queues]
    in_hand = frozenset(task for worker in workers for task in worker.tasks)
    counts_consumers = broker_url is not None and not is_redis(celery_url(broker_url))
    trouble, is_empty = None, False
    try:
        state = queue_states(redis, [QUEUE_INDEX], broker_url=broker_url)[QUEUE_INDEX]
        is_empty = not state.length
        # RabbitMQ disconnects a worker that is busy for long; the worker connects again.
        if counts_consumers and not state.workers and not in_hand:
            trouble = NotRunning(
                f"no worker takes anything from {QUEUE_INDEX} at this command's broker",
                "give it the CHORALE_BROKER_URL of the workers, which are alive",
            )
    except BROKER_ERRORS:
        # The broker does not answer; whoever sends the next message gets its error.
        if broker_url is None:
            raise
    if not workers:
        trouble = NotRunning(
            f"no worker of {QUEUE_INDEX} is alive",
            "start one with `chorale worker index`, or let this process do it with --where here",
        )
    return IndexQueue(trouble, is_empty, in_hand)


class SentMessages:
    """The sent messages of one source whose outcome this command has not read yet.

    Redis keeps the list for a day, for the next run.  `say` takes lines for the user who waits.
    """

    def __init__(
        self, installation: Installation, *, namespace: str, source: str, say: Callable[[str], None]
    ) -> None:
        self._installation, self._redis, self._say = installation, installation.running_redis(), say
        self._key, self._not_done = f"{SENT}{namespace}:{source}", NOT_DONE + namespace
        self._bytes: dict[str, int] = {}
        self._said: set[str] = set()

    def __len__(self) -> int:
        return len(self._bytes)

    @property
    def bytes(self) -> int:
        return sum(self._bytes.values())

    def wait_for_earlier(self) -> None:
        """Wait until every message of an earlier run has ended or is lost; the documents' database has the outcome.

        Raises NotRunning, RedisError.
        """
        tickets = cast("set[bytes]", self._redis.smembers(self._key))
        self._bytes = {ticket.decode(): 0 for ticket in tickets}
        self._ended()
        if self._bytes:
            self._say("waiting for what an earlier run has sent")
        while self._bytes:
            self.wait()

    def add(self, ticket: str, size_bytes: int = 0) -> None:
        """Raises RedisError."""
        ledger_scripts(self._redis).run("add_sent", [self._key], [ticket, KEPT_S])
        self._bytes[ticket] = size_bytes

    def wait(self) -> list[Outcome | None]:
        """Wait until a message has ended; returns the outcome of each ended message, None for a lost one.

        Raises NotRunning where no worker has been alive for a minute, RedisError.
        """
        served_s = looked_s = time.monotonic()
        missing_s = 0.0
        while not (ended := self._ended()):
            time.sleep(LOOK_AGAIN_S)
            if (now_s := time.monotonic()) < looked_s + LOOK_FOR_WORKERS_S:
                continue
            looked_s = now_s
            self._say_why_they_wait()
            queue = index_queue(self._installation)
            if (trouble := queue.trouble) is None:
                served_s = now_s
            elif now_s > served_s + GIVE_UP_S:
                raise NotRunning(trouble.what, f"{trouble.mend}; what was sent stays in the queue")
            else:
                self._say_once(f"{trouble.what}: waiting for one")
            if trouble is not None or not queue.is_empty or queue.in_hand & self._bytes.keys():
                missing_s = 0.0
            # Counted by looks: while this process was stopped, it saw neither the message nor its outcome.
            elif (missing_s := missing_s + LOOK_FOR_WORKERS_S) > LOST_AFTER_S:
                # Later writes need not be recorded for the lost messages any more.
                self._redis.zrem(self._not_done, *self._bytes)
                return self._forget(dict.fromkeys(self._bytes))
        return ended

    def _ended(self) -> list[Outcome | None]:
        """Returns without waiting.  A finished ticket whose outcome has expired yields None."""
        # Redis over `maxmemory` refuses transactions.  In this order a message that ends meanwhile does not look lost.
        with self._redis.pipeline(transaction=False) as trip:
            for ticket in self._bytes:
                trip.zscore(self._not_done, ticket)
                trip.get(INDEXED + ticket)
            replies = trip.execute()
        return self._forget(
            {
                ticket: None if outcome is None else from_json(outcome)
                for ticket, not_done, outcome in zip(self._bytes, replies[::2], replies[1::2], strict=True)
                if outcome is not None or not_done is None
            }
        )

    def _forget(self, ended: Mapping[str, Outcome | None]) -> list[Outcome | None]:
        if ended:
            self._redis.srem(self._key, *ended)
        for ticket in ended:
            del self._bytes[ticket]
        return list(ended.values())

    def _say_why_they_wait(self) -> None:
        for raw in cast(
            "list[bytes | None]", self._redis.mget([waiting_key(ticket) for ticket in self._bytes])
        ):
            if raw is not None:
                self._say_once(f"not indexed yet: {from_json(raw)['waiting']}")

    def _say_once(self, what: str) -> None:
        if what not in self._said:
            self._said.add(what)
            self._say(what)


IDS_A_MESSAGE = 1_000
OUTCOMES = 8
"""A small source is sent in this many messages, since the outcomes of messages are what shows how far it is."""
AT_ONCE = 16
"""Messages that are with the workers at a time: enough for several workers, few enough that Ctrl-C leaves little."""
BYTES_AT_ONCE = 64 * 1024 * 1024
"""Bytes of those messages in the broker's memory; a single message may have 45 MB."""

FOR_ROOM_S = 1.0
"""Pause between attempts to send while the documents of others fill the broker."""


def index_by_workers(
    installation: Installation,
    documents: SourceDocuments,
    *,
    namespace: str,
    progress: Callable[[Progress], None],
    say: Callable[[str], None],
) -> IndexReport:
    """Send new and changed documents, wait until every store shows them, and report.

    Sent messages stay in the queue if this process ends.  The messages of an earlier run are waited for first: this run
    compares its documents with the table that they change.  Raises NotRunning where no worker of `chorale.index` is
    alive, ServiceError where the workers refused a message or it was lost, RedisError, and the client's errors.
    """
    if (trouble := index_queue(installation).trouble) is not None:
        raise trouble
    sent = SentMessages(installation, namespace=namespace, source=documents.source, say=say)
    sent.wait_for_earlier()
    store = installation.resources.writing_store
    state = known(store, namespace)
    before = store.revisions(namespace, documents.source) if state else {}
    run = IndexingRun(documents, before, progress)
    run.report.generation = state.generation if state else 0
    sending = _Sending(installation, namespace, run, sent)
    documents_each = ceil(documents.total / OUTCOMES) if documents.total else BATCH_DOCUMENTS
    for batch in run.batches(batch_documents=min(documents_each, BATCH_DOCUMENTS)):
        sending.upsert([item for item, _ in batch])
    sending.wait_for(0)
    gone = run.gone()
    if documents.prune:
        sending.delete(gone)
        sending.wait_for(0)
        run.report.gone = 0
    return run.report


class _Sending:
    """Sends the documents of one run, and adds up the outcomes."""

    def __init__(
        self, installation: Installation, namespace: str, run: IndexingRun, sent: SentMessages
    ) -> None:
        self._client = installation.client()
        self._installation, self._namespace, self._run, self._sent = installation, namespace, run, sent

    def upsert(self, items: Iterable[RawDocument]) -> None:
        written = []
        for item in items:
            document = write_document(_row(item))
            if document.fault is None:
                written.append(document)
            else:
                why = f"{document.fault}; --where here takes it"
                self._run.report.skipped.append(Skipped(item.path, NotIndexed.TOO_LARGE, why, item.line))
        if written:
            # The approximate size of the message, which is Base64.
            size_bytes = sum(len(document.json) for document in written) * 4 // 3
            self.wait_for(AT_ONCE - 1, BYTES_AT_ONCE - size_bytes)
            source = self._run.documents.source
            upsert = partial(self._client.upsert, self._namespace, written, source=source)
            self._hand_in(upsert, size_bytes)

    def delete(self, ids: Sequence[str]) -> None:
        for start in range(0, len(ids), IDS_A_MESSAGE):
            part = ids[start : start + IDS_A_MESSAGE]
            self._hand_in(partial(self._client.delete, self._namespace, part))

    def _hand_in(self, send: Callable[[], str], size_bytes: int = 0) -> None:
        """Send as soon as the broker has room."""
        while True:
            try:
                return self._sent.add(send(), size_bytes)
            except NoRoom as refused:
                if len(self._sent):
                    self.wait_for(len(self._sent) - 1)
                elif refused.waiting and index_queue(self._installation).trouble is None:
                    time.sleep(FOR_ROOM_S)
                else:
                    raise

    def wait_for(self, messages: int, size_bytes: int = BYTES_AT_ONCE) -> None:
        """Wait until the workers have at most this many messages and bytes; a single message may be larger."""
        while len(self._sent) > messages or (len(self._sent) and self._sent.bytes > size_bytes):
            for outcome in self._sent.wait():
                self._add(outcome)

    def _add(self, outcome: Outcome | None) -> None:
        if outcome is None:
            raise ServiceError(
                f"a message was lost: it is not in {QUEUE_INDEX}, no worker has it, and it has no outcome; the same "
                "command sends it again"
            )
        if (error := outcome.get("error")) is not None:
            raise ServiceError(error)
        # The headings of a file are known, and reported by its name.
        known = [item for item in outcome["left_out"] if item.get("reason") == NotIndexed.HEADINGS]
        self._run.report.add(
            {**outcome, "left_out": [item for item in outcome["left_out"] if item not in known]}
        )
        self._run.report_progress()


def _row(item: RawDocument) -> dict[str, Any]:
    return {
        "id": item.document_id,
        "title": item.title,
        "text": item.text,
        "metadata": item.metadata,
        "markup": item.markup,
        **({"page_starts": [*item.page_starts]} if item.page_starts else {}),
    }
