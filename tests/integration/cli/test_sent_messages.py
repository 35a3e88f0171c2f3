"""What becomes of a `chorale index` whose messages are put back, lost, overtaken, or left behind by an earlier run."""

from __future__ import annotations

import json
import math
import time
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
from celery import Celery
from chorale_client import Chorale
from chorale_client.keys import HEARTBEAT, INDEXED, NOT_DONE, SENT, waiting_key

import cli.indexing.by_workers
import cli.indexing.sent_messages
import tasks.indexing.handed_in_documents
import tasks.indexing.index_tasks
import tasks.indexing.indexing_run
from cli.indexing.by_workers import index_by_workers
from cli.indexing.sent_messages import SentMessages
from cli.installation import Installation, NotRunning
from config.settings import Settings
from ingest.raw_documents import RawDocument
from models.errors import ServiceError, StoreUnavailable
from tasks.indexing.indexing_run import BATCH_DOCUMENTS, IndexReport, Progress, SourceDocuments
from tasks.indexing.message_order import Turns
from tasks.registration import make_app
from tests.support.json_dumps import recorded_dumps
from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.models.used_embedder import use_embedder
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

QUEUE = "chorale.index"
POLL_S, LOST_S = 0.05, 0.4
SOURCE = "wiki"

Index = Callable[..., "Future[IndexReport]"]


def page(name: str, text: str = "Moles dig.") -> RawDocument:
    return RawDocument(f"wiki/{name}", SOURCE, name, text, path=name)


@pytest.fixture
def installation(redis_client: redis.Redis, redis_server: RedisServer, tmp_path: Path) -> Installation:
    return Installation(Settings(home=tmp_path), redis_server.url)


@pytest.fixture
def app(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> Celery:
    monkeypatch.setattr(tasks.indexing.index_tasks, "PATIENCE_S", 0.0)
    monkeypatch.setattr(tasks.indexing.index_tasks, "PAUSE_S", 0.0)
    use_embedder(installation.resources, HashingEmbedder())
    app = make_app(installation.resources)
    # A busy machine may use up the turn of a namespace, after which its messages are put back.
    app.turns = Turns(lambda _: math.inf)
    return app


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def index(
    installation: Installation, lines: list[str], redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Index]:
    """Start a run, which looks for workers and lost messages more often, while a worker is alive."""
    monkeypatch.setattr(cli.indexing.sent_messages, "COUNT_WORKERS_S", POLL_S)
    monkeypatch.setattr(cli.indexing.sent_messages, "LOST_AFTER_S", LOST_S)
    alive(redis_client)
    with ThreadPoolExecutor(1) as pool:

        def run(
            items: Iterable[RawDocument],
            *,
            prune: bool = False,
            total: int | None = None,
            progress: Callable[[Progress], None] = lambda _: None,
        ) -> Future[IndexReport]:
            documents = SourceDocuments(items, SOURCE, prune=prune, total=total)
            return pool.submit(
                index_by_workers,
                installation,
                documents,
                namespace="docs",
                progress=progress,
                say=lines.append,
            )

        yield run
        # So that no run goes on.
        monkeypatch.setattr(cli.indexing.sent_messages, "GIVE_UP_S", 0.0)
        gone(redis_client)


def alive(client: redis.Redis, *in_hand: str) -> None:
    seconds, _ = client.time()
    beat = {"at": seconds * 1000, "ready": True, "queues": [QUEUE], "tasks": in_hand}
    client.set(HEARTBEAT + "index-1", json.dumps(beat))


def gone(client: redis.Redis) -> None:
    client.delete(HEARTBEAT + "index-1")


def sent(client: redis.Redis, messages: int = 1) -> None:
    until(lambda: client.llen(QUEUE) == messages)


def ticket(client: redis.Redis) -> str:
    (message,) = client.lrange(QUEUE, 0, -1)
    return str(json.loads(message)["headers"]["id"])


def work(app: Celery) -> None:
    """Do every message that waits now, once, as a worker would."""
    client = app.resources.redis
    waiting = [json.loads(message) for message in client.lrange(QUEUE, 0, -1)]
    alive(client, *(message["headers"]["id"] for message in waiting))
    client.delete(QUEUE)
    for message in reversed(waiting):
        args, kwargs, _ = json.loads(b64decode(message["body"]))
        headers = message["headers"]
        app.tasks[headers["task"]].apply(args=args, kwargs=kwargs, task_id=headers["id"]).get()
    alive(client)


def test_a_command_that_reads_files_and_a_worker_dump_a_document_once_each(
    app: Celery, index: Index, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    dumps = recorded_dumps(monkeypatch, "Moles dig.")
    running = index([page("a", "Moles dig.")])
    sent(redis_client)
    assert len(dumps) == 1
    work(app)
    assert running.result(30).added == 1
    assert len(dumps) == 2


def test_the_client_dumps_a_document_once(
    installation: Installation, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    dumps = recorded_dumps(monkeypatch, "Moles dig.")
    Chorale(installation.redis_url or "").upsert("docs", [{"id": "moles", "text": "Moles dig."}])
    assert (len(dumps), redis_client.llen(QUEUE)) == (1, 1)


@pytest.mark.slow
def test_a_worker_that_is_started_anew_is_waited_for(
    app: Celery, index: Index, lines: list[str], redis_client: redis.Redis
) -> None:
    running = index([page("a")])
    sent(redis_client)
    gone(redis_client)
    until(lambda: lines)
    assert lines == ["no worker of chorale.index is alive: waiting for one"]
    work(app)
    assert running.result(30).added == 1


def test_a_worker_that_stays_away_ends_the_command_and_what_was_sent_stays(
    index: Index, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli.indexing.sent_messages, "GIVE_UP_S", 0.1)
    running = index([page("a")])
    sent(redis_client)
    gone(redis_client)
    reason = r"no worker of chorale.index is alive.* what was sent stays in the queue"
    with pytest.raises(NotRunning, match=reason):
        running.result(30)
    assert redis_client.llen(QUEUE) == 1


def test_the_reason_why_a_message_is_put_back_is_logged_once(
    app: Celery, index: Index, lines: list[str], redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = "the documents' database does not answer"

    def fails(*_: object, **__: object) -> None:
        raise StoreUnavailable(reason)

    running = index([page("a")])
    sent(redis_client)
    known = ticket(redis_client)
    with monkeypatch.context() as patched:
        patched.setattr(tasks.indexing.handed_in_documents, "index_corpus", fails)
        for _ in range(2):
            work(app)
            until(lambda: lines)
            time.sleep(3 * POLL_S)
    assert lines == [f"not indexed yet: {reason}"]
    work(app)
    assert running.result(30).added == 1
    assert not redis_client.exists(waiting_key(known))


def test_a_message_that_is_lost_ends_the_command(index: Index, redis_client: redis.Redis) -> None:
    running = index([page("a")])
    sent(redis_client)
    assert list(redis_client.scan_iter(f"{NOT_DONE}*"))
    redis_client.delete(QUEUE)
    with pytest.raises(ServiceError, match="the same command sends it again"):
        running.result(30)
    assert list(redis_client.scan_iter(f"{NOT_DONE}*")) == []


@pytest.mark.slow
def test_a_message_that_a_worker_works_on_does_not_count_as_lost(
    app: Celery, index: Index, redis_client: redis.Redis
) -> None:
    running = index([page("a")])
    sent(redis_client)
    (message,) = redis_client.lrange(QUEUE, 0, -1)
    alive(redis_client, ticket(redis_client))
    redis_client.delete(QUEUE)
    time.sleep(LOST_S * 2)
    assert not running.done()
    redis_client.lpush(QUEUE, message)
    work(app)
    assert running.result(30).added == 1


@contextmanager
def full(client: redis.Redis) -> Iterator[None]:
    client.config_set("maxmemory", client.info("memory")["used_memory"] // 2)
    try:
        yield
    finally:
        client.config_set("maxmemory", 0)


def test_the_command_goes_on_waiting_while_redis_is_full(
    app: Celery, index: Index, redis_client: redis.Redis
) -> None:
    def read_count() -> int:
        return int(redis_client.info("commandstats").get("cmdstat_zscore", {"calls": 0})["calls"])

    running = index([page("a")])
    sent(redis_client)
    with full(redis_client):
        before = read_count()
        until(lambda: running.done() or read_count() > before + 2)
    work(app)
    assert running.result(30).added == 1


def test_sent_messages_are_recorded_for_the_next_run_while_redis_is_full(
    installation: Installation, redis_client: redis.Redis, lines: list[str]
) -> None:
    messages = SentMessages(installation, namespace="docs", source=SOURCE, say=lines.append)
    with full(redis_client):
        messages.add("a")
    assert redis_client.smembers(f"{SENT}docs:{SOURCE}") == {b"a"}
    assert redis_client.ttl(f"{SENT}docs:{SOURCE}") > 0


def test_the_outcomes_of_a_small_source_show_how_far_it_is(
    app: Celery, index: Index, redis_client: redis.Redis
) -> None:
    seen: list[int] = []
    pages = [page(str(number)) for number in range(20)]
    running = index(pages, total=20, progress=lambda so_far: seen.append(so_far.documents))
    sent(redis_client, 7)
    work(app)
    assert running.result(30).added == 20
    assert sorted({*seen}) == [3, 6, 9, 12, 15, 18, 20]


def pages_of_interrupted_run(index: Index) -> list[RawDocument]:
    """The pages of a run that was interrupted after a whole message."""
    pages = [page(str(number)) for number in range(BATCH_DOCUMENTS)]

    def interrupted() -> Iterator[RawDocument]:
        yield from pages
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index(interrupted()).result(30)
    return pages


def test_the_next_run_waits_for_the_messages_of_an_interrupted_run_before_it_compares(
    app: Celery, index: Index, lines: list[str], redis_client: redis.Redis
) -> None:
    pages = pages_of_interrupted_run(index)
    sent(redis_client)
    running = index(pages[1:], prune=True)
    until(lambda: lines)
    assert lines == ["waiting for what an earlier run has sent"]
    work(app)
    sent(redis_client)
    work(app)
    report = running.result(30)
    assert (report.unchanged, report.added, report.deleted) == (BATCH_DOCUMENTS - 1, 0, 1)
    revisions = app.resources.writing_store.revisions("docs", SOURCE)
    assert set(revisions) == {page.document_id for page in pages[1:]}
    assert not redis_client.exists(f"{SENT}docs:{SOURCE}")


@pytest.mark.parametrize("is_done", [False, True], ids=["its message", "its outcome"])
def test_what_an_earlier_run_sent_and_is_lost_is_sent_again(
    app: Celery, index: Index, redis_client: redis.Redis, is_done: bool
) -> None:
    pages = pages_of_interrupted_run(index)
    sent(redis_client)
    if is_done:
        known = ticket(redis_client)
        work(app)
        redis_client.delete(INDEXED + known)
    redis_client.delete(QUEUE)
    running = index(pages)
    if not is_done:
        sent(redis_client)
        work(app)
    report = running.result(30)
    expected = (0, BATCH_DOCUMENTS) if is_done else (BATCH_DOCUMENTS, 0)
    assert (report.added, report.unchanged) == expected


@pytest.mark.slow
def test_the_messages_with_the_workers_stay_below_the_byte_limit(
    app: Celery, index: Index, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks.indexing.indexing_run, "BATCH_CHARACTERS", 1)
    pages = [page(str(number), "Moles dig. " * 1_000) for number in range(5)]
    index(pages[:1])
    sent(redis_client)
    (message,) = redis_client.lrange(QUEUE, 0, -1)
    work(app)
    monkeypatch.setattr(cli.indexing.by_workers, "BYTES_AT_ONCE", int(2.5 * len(message)))
    running = index(pages[1:])
    for messages in (2, 2):
        sent(redis_client, messages)
        time.sleep(0.2)
        assert redis_client.llen(QUEUE) == messages
        work(app)
    assert running.result(30).added == 4
