"""Three readers of one request: the caller who waits, a caller who asks later, and the audit.

`seen` asks, watches Celery's own view of the request, and checks the promises that hold for every fault.  A test then
checks the answer of its fault.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from celery import Celery
from chorale_client import Answer, make_request
from chorale_client.keys import COALESCING, ENTRY, HEARTBEAT, OUTBOX, WAKEUPS, result_key
from chorale_client.ledger import CallersLedger
from chorale_client.request import Request
from redis import Redis
from sqlalchemy import func, select

from models.tables.audit import RequestRow
from records.audit.queries import show
from records.database import open_database
from tests.support.pipelines.failpoints import arm, fault_counts, wait_for_fault
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.waiting import until

SLACK_MS = 10_000
"""How much later than its deadline a request may end on a busy machine, by the Redis clock."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One request as its readers saw it; it was checked that they agree."""

    request: Request
    answer: Answer
    """The answer of the caller who waited; a later caller got the same."""
    audit: RequestRow

    @property
    def status(self) -> str:
        return self.answer.status

    @property
    def missing(self) -> list[tuple[str, str]]:
        return [(one.where, one.reason) for one in self.answer.degraded]

    @property
    def documents(self) -> list[str]:
        return [hit.document_id for hit in self.answer.hits]

    @property
    def branches(self) -> set[str]:
        """Returns the branches that found a hit of the answer."""
        return {branch for hit in self.answer.hits for branch in hit.found_by}


def order_by(pipeline: RunningPipeline, branches: Sequence[str], question: str = "ERR-4711") -> list[str]:
    """Returns the documents as a healthy pipeline ranks them with only these branches."""
    answer = pipeline.client().retrieve(question, branches=list(branches), cache="bypass", timeout_s=20)
    assert answer.status == "complete"
    return [hit.document_id for hit in answer.hits]


def seen(pipeline: RunningPipeline, question: str = "ERR-4711", **options: Any) -> Seen:
    """Asks through the client, which waits; `options` are those of the request."""
    request = make_request(question, **{"cache": "bypass", **options})
    with watching(pipeline, request.request_id) as watched:
        answer = pipeline.client().ask(request)
    return read_later(pipeline, request, answer, watched)


def asking(pipeline: RunningPipeline, question: str = "ERR-4711", **options: Any) -> Future[Seen]:
    """Runs `seen` in a thread, while the test acts."""
    executor = ThreadPoolExecutor(1)
    future = executor.submit(seen, pipeline, question, **options)
    executor.shutdown(wait=False)
    return future


def striking(
    pipeline: RunningPipeline, place: str, fault: str, process: str = "", **options: Any
) -> Future[Seen]:
    """Runs `asking` with this fault for the process that reaches this place with the request; returns once it happened."""
    request_id = str(uuid.uuid4())
    before = fault_counts(pipeline.redis).get(place, 0)
    arm(pipeline.redis, place, fault, process=process, request_id=request_id)
    future = asking(pipeline, request_id=request_id, **options)
    wait_for_fault(pipeline.redis, place, before=before)
    return future


def seen_of(pipeline: RunningPipeline, request: Request) -> Seen:
    """Waits for a request that was submitted already, and reads it as all readers do."""
    with watching(pipeline, request.request_id) as watched:
        answer = pipeline.client().answer(request.request_id, wait_s=request.timeout_s + SLACK_MS / 1000)
    return read_later(pipeline, request, answer, watched)


@dataclass(slots=True)
class Watched:
    announcements: list[bytes]
    disagreements: list[str]


@contextmanager
def watching(pipeline: RunningPipeline, request_id: str) -> Iterator[Watched]:
    """Compares `AsyncResult(request_id)` with the ledger's result until the end, and counts the announcements."""
    client, key = pipeline.server.client(), result_key(request_id)
    ledger = CallersLedger(client)
    watched = Watched([], [])
    stop = threading.Event()
    app = Celery("reader", set_as_current=False, backend=pipeline.server.celery_url)
    listener = client.pubsub(ignore_subscribe_messages=True)
    listener.subscribe(key)

    def watch() -> None:
        while not stop.is_set():
            before = ledger.result(request_id)
            state = app.AsyncResult(request_id).state
            after = ledger.result(request_id)
            wanted = {"SUCCESS"} if before else {"PENDING", "STARTED"}
            wanted |= {"SUCCESS"} if after else set()
            if state not in wanted:
                watched.disagreements.append(f"Celery says {state}, the ledger {sorted(wanted)}")
            while (message := listener.get_message()) is not None:
                watched.announcements.append(message["data"])
            stop.wait(0.02)

    def watch_on() -> None:
        # While the test has stopped the server, there is nothing to compare.
        while not stop.is_set():
            try:
                watch()
            except Exception:
                stop.wait(0.05)

    thread = threading.Thread(target=watch_on, daemon=True)
    thread.start()
    try:
        yield watched
    finally:
        give_up = time.monotonic() + 2
        while not watched.announcements and time.monotonic() < give_up:
            time.sleep(0.02)
        stop.set()
        thread.join()
        listener.close()
        # A Redis connection warns if the garbage collector takes its socket first.
        app.backend.client.connection_pool.disconnect()
        app.close()
        client.close()


def read_later(pipeline: RunningPipeline, request: Request, answer: Answer, watched: Watched) -> Seen:
    """Checks what holds for every request, and reads it as a later caller and from the audit."""
    request_id, client = request.request_id, pipeline.redis
    assert answer.request_id == request_id
    assert answer.took_ms <= request.timeout_s * 1000 + SLACK_MS, "it ended after its deadline"
    assert pipeline.client().answer(request_id) == answer, "who asks later reads something else"
    assert watched.disagreements == []
    assert len(watched.announcements) <= 1, "two terminal writes"
    assert not client.exists(ENTRY + request_id), "an ended request is still in flight"
    assert client.pttl(result_key(request_id)) > 0, "the answer never expires"
    # What a caller has ended by itself has a moment until the next sweep.
    until(lambda: client.zscore(WAKEUPS, request_id) is None)
    until(lambda: not any(request_id in channel for channel in channels(client)))
    assert request_id.encode() not in [client.get(key) for key in client.scan_iter(COALESCING + "*")]
    row = audited(pipeline, request_id)
    assert (row.status, row.took_ms) == (answer.status, answer.took_ms)
    return Seen(request, answer, row)


@contextmanager
def unchanged(pipeline: RunningPipeline, ended: Seen) -> Iterator[None]:
    """Checks that the block changes nothing of an ended request and announces it to nobody again."""
    request_id, client = ended.request.request_id, pipeline.redis
    key = result_key(request_id)
    answer = client.get(key)
    listener = client.pubsub(ignore_subscribe_messages=True)
    listener.subscribe(key)
    try:
        yield
        # The first message confirms the subscription.
        messages = [listener.get_message(timeout=0.05) for _ in range(3)]
    finally:
        listener.close()
    assert messages == [None] * 3, "a second terminal write"
    assert client.get(key) == answer, "the answer was written again"
    assert not client.exists(ENTRY + request_id), "an ended request is in flight again"
    assert client.zscore(WAKEUPS, request_id) is None
    assert audited(pipeline, request_id).to_dict() == ended.audit.to_dict()


def mentions(client: Redis, request_id: str) -> list[str]:
    """Returns the keys whose name or value has the request's id; a heartbeat with the id is ignored."""
    keys = cast("Iterator[bytes]", client.scan_iter())
    lasting = (key for key in keys if not key.startswith(HEARTBEAT.encode()))
    return sorted(key.decode() for key in lasting if request_id in f"{key!r} {_value(client, key)!r}")


def _value(client: Redis, key: bytes) -> Any:
    readers: dict[bytes, Callable[[], Any]] = {
        b"none": lambda: None,
        b"string": lambda: client.get(key),
        b"hash": lambda: client.hgetall(key),
        b"list": lambda: client.lrange(key, 0, -1),
        b"set": lambda: client.smembers(key),
        b"zset": lambda: client.zrange(key, 0, -1),
        b"stream": lambda: client.xrange(key),
    }
    return readers[cast(bytes, client.type(key))]()


def audited(pipeline: RunningPipeline, request_id: str, *, limit_s: float = 20) -> RequestRow:
    """Returns the request's one row, once the outbox no longer has the request."""
    engine = open_database(pipeline.resources.settings.audit_database_url)

    def row() -> RequestRow | None:
        try:
            return None if in_outbox(pipeline.redis, request_id) else show(engine, request_id)
        except Exception:  # the database that the test took away, or that is not there yet
            return None

    try:
        written = until(row, limit_s)
        with engine.connect() as connection:
            count = select(func.count()).where(RequestRow.request_id == request_id)
            assert connection.execute(count).scalar() == 1, "audited twice"
        assert written is not None
        return written
    finally:
        engine.dispose()


def in_outbox(client: Redis, request_id: str) -> bool:
    entries = cast("list[tuple[bytes, dict[bytes, bytes]]]", client.xrange(OUTBOX))
    return any(fields[b"id"].decode() == request_id for _, fields in entries)


def channels(client: Redis) -> set[str]:
    """Returns the channels of answers that have a subscriber."""
    names = cast("list[bytes]", client.pubsub_channels("celery-task-meta-*"))
    return {channel.decode() for channel in names}
