"""`chorale index` through workers: this process reads the files; the workers of `chorale.index` embed and write."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any

from chorale_client.documents import write_document
from chorale_client.errors import QueueFull
from chorale_client.wire_names import QUEUE_INDEX

from cli.indexing.sent_messages import Outcome, SentMessages, index_queue
from cli.namespace_states import known
from ingest.raw_documents import RawDocument, Skipped
from models.errors import ServiceError
from models.not_indexed import NotIndexed
from tasks.indexing.indexing_run import BATCH_DOCUMENTS, IndexingRun, IndexReport, Progress, SourceDocuments

if TYPE_CHECKING:
    from cli.installation import Installation

IDS_A_MESSAGE = 1_000
OUTCOMES = 8
"""A small source is sent in this many messages, since the outcomes of messages are what shows how far it is."""
AT_ONCE = 16
"""Messages that are with the workers at a time: enough for several workers, few enough that Ctrl-C leaves little."""
BYTES_AT_ONCE = 64 * 1024 * 1024
"""Bytes of those messages in the broker's memory; a single message may have 45 MB."""

RESEND_S = 1.0
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
            except QueueFull as refused:
                if len(self._sent):
                    self.wait_for(len(self._sent) - 1)
                elif refused.waiting and index_queue(self._installation).trouble is None:
                    time.sleep(RESEND_S)
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
