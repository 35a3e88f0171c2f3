"""What becomes of messages with documents that cannot be done now, or are done in another order."""

from __future__ import annotations

import json
import math
import threading
import unicodedata
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import redis
import structlog
from celery import Celery
from chorale_client import Chorale
from chorale_client.errors import NotEnded, UnknownRequest
from chorale_client.index_tickets import MESSAGE_TTL_S, next_stamp
from chorale_client.keys import INDEXED, NOT_DONE, WRITTEN

import tasks.indexing.handed_in_documents
import tasks.indexing.index_tasks
import tasks.indexing.message_order
import tasks.indexing.namespace_writer
from config.settings import Settings
from models.documents import Manifest, Matrix
from models.errors import BadIndex, ModelMissing, StoreUnavailable, WriterBusy
from models.not_indexed import NotIndexed
from models.retries import retried
from search.documents.reading import Documents
from search.documents.store import DocumentStore
from tasks.indexing.embedding_prefetch import EmbeddingPrefetch
from tasks.indexing.message_order import NAMESPACE, Turns, WriteOrder, turn_s
from tasks.indexing.namespace_writer import drop_namespace
from tasks.registration import make_app
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.models.languages import ENGLISH, ITALIAN
from tests.support.models.used_embedder import use_embedder
from tests.support.not_indexed import ROWS
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

QUEUE = "chorale.index"
TEA = {"id": "tea", "title": "Tea", "text": "Green tea is brewed at eighty degrees."}
RENT = {"id": "rent", "title": "Rent", "text": "The rent is due on the third working day."}


@pytest.fixture
def app(
    redis_client: redis.Redis, redis_server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Celery:
    monkeypatch.setattr(tasks.indexing.index_tasks, "PATIENCE_S", 0.0)
    monkeypatch.setattr(tasks.indexing.index_tasks, "PAUSE_S", 0.0)
    resources = Resources(Settings(home=tmp_path), load_pipeline(), redis_server.url)
    use_embedder(resources, HashingEmbedder())
    resources.__dict__["documents"] = Documents(tmp_path / "corpus" / "corpus.db", writer_wait_s=0.1)
    app = make_app(resources)
    # A busy machine may use up the turn of a namespace, after which its messages are put back.
    app.turns = Turns(lambda _: math.inf)
    return app


@pytest.fixture
def client(redis_server: RedisServer) -> Chorale:
    return Chorale(redis_server.url)


def work(app: Celery, *, last_first: bool = False) -> None:
    """Do every message that waits now, once, as a worker would."""
    redis = app.resources.redis
    for _ in range(redis.llen(QUEUE)):
        text = redis.lpop(QUEUE) if last_first else redis.rpop(QUEUE)
        message = json.loads(text)
        args, kwargs, _ = json.loads(b64decode(message["body"]))
        headers = message["headers"]
        app.tasks[headers["task"]].apply(args=args, kwargs=kwargs, task_id=headers["id"]).get()


def done(app: Celery, ticket: str) -> str:
    work(app)
    return ticket


def indexed_ids(app: Celery) -> set[str]:
    return set(app.resources.writing_store.revisions("docs", "task"))


def waiting_messages(app: Celery) -> list[bytes]:
    return cast("list[bytes]", app.resources.redis.lrange(QUEUE, 0, -1))


@contextmanager
def failing(failure: Exception) -> Iterator[None]:
    """Every write of documents raises this error."""

    def fails(*_: object, **__: object) -> None:
        raise failure

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks.indexing.handed_in_documents, "index_corpus", fails)
        yield


@contextmanager
def writing(store: DocumentStore, namespace: str) -> Iterator[None]:
    """Somebody else, for a long time."""
    begun, end = threading.Event(), threading.Event()

    def hold() -> None:
        with store.exclusive(namespace):
            begun.set()
            end.wait(30)

    holding = threading.Thread(target=hold)
    holding.start()
    assert begun.wait(10)
    try:
        yield
    finally:
        end.set()
        holding.join()


def test_a_message_for_a_namespace_that_is_being_written_lets_messages_for_other_namespaces_go_first(
    app: Celery, client: Chorale
) -> None:
    client.wait_visible(done(app, client.upsert("docs", [RENT])))
    store = app.resources.writing_store
    with writing(store, "docs"):
        first = client.upsert("docs", [TEA])
        other = client.upsert("others", [TEA])
        for _ in range(2):
            work(app)
        assert client.wait_visible(other).added == 1
        assert not app.resources.redis.exists(INDEXED + first)
        assert len(waiting_messages(app)) == 1
    work(app)
    assert client.wait_visible(first).added == 1
    assert indexed_ids(app) == {"tea", "rent"}
    assert not waiting_messages(app)


@pytest.mark.parametrize(
    "failure",
    [
        StoreUnavailable("the documents' database does not answer"),
        OSError(28, "No space left on device"),
        ModelMissing("no model"),
        redis.ConnectionError("reset"),
    ],
    ids=lambda failure: type(failure).__name__,
)
def test_a_message_with_a_temporary_failure_is_retried_for_a_day_and_then_given_up_with_the_reason(
    app: Celery, client: Chorale, failure: Exception
) -> None:
    with failing(failure):
        ticket = client.upsert("docs", [TEA])
        work(app)
        work(app)
        assert not app.resources.redis.exists(INDEXED + ticket)
        seconds, microseconds = app.resources.redis.time()
        stamp = (seconds - MESSAGE_TTL_S - 60) * 1_000_000 + microseconds
        old = {"namespace": "docs", "documents": [TEA], "handed_in": stamp}
        app.send_task("chorale.index", kwargs=old, queue=QUEUE, task_id="old")
        work(app)
        assert str(failure) in (client.wait_visible("old").error or "")
        assert len(waiting_messages(app)) == 1
    work(app)
    assert client.wait_visible(ticket).added == 1


def test_messages_in_two_languages_that_make_a_namespace_at_once_are_both_indexed(
    app: Celery, client: Chorale, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one was read while there was no namespace, and the first one has made it since."""
    client.wait_visible(done(app, client.upsert("docs", [RENT | {"text": ENGLISH}])))
    monkeypatch.setattr(tasks.indexing.namespace_writer, "_present", lambda *_: None)
    indexed = client.wait_visible(done(app, client.upsert("docs", [TEA | {"text": ITALIAN}])))
    assert (indexed.error, indexed.added) == (None, 1)
    assert app.resources.writing_store.known("docs").manifest.language == "en"


def test_each_document_of_a_message_is_indexed_or_reported_with_its_reason(
    app: Celery, client: Chorale, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = "search.documents.document_rows.refusal_reason"
    monkeypatch.setattr(refused, lambda document: "too large" if document.document_id == "refused" else None)
    documents = [{"id": "good", "text": "Roses are cut."}, *(row for rows in ROWS.values() for row in rows)]
    # A message of a program without our client, which refuses some of these documents itself.
    message = {"namespace": "docs", "documents": documents}
    app.send_task("chorale.index", kwargs=message, queue=QUEUE, task_id="ticket")
    indexed = client.wait_visible(done(app, "ticket"))
    assert indexed.error is None
    assert indexed.reasons == {reason: 1 for reason in NotIndexed if reason in ROWS}
    assert len(indexed.skipped) == len(ROWS)
    not_indexed = sum(count for reason, count in indexed.reasons.items() if not NotIndexed(reason).is_part)
    assert indexed.added + not_indexed == len(documents)


def test_a_small_message_of_one_namespace_comes_before_the_rest_of_a_heavy_one_of_another(
    app: Celery, client: Chorale
) -> None:
    class TakesASecond(HashingEmbedder):
        now_s = 0.0

        def embed_passages(self, texts: Sequence[str], **options: Any) -> Matrix:
            self.now_s += 1
            return super().embed_passages(texts, **options)

    embedder = TakesASecond()
    use_embedder(app.resources, embedder)
    app.turns = Turns(partial(turn_s, app.resources), clock=lambda: embedder.now_s)
    heavy = client.upsert("heavy", [{"id": "book", "text": " ".join(f"word{n}" for n in range(3_000))}])
    light = client.upsert("light", [TEA])
    work(app)
    assert client.wait_visible(light, wait_s=0).added == 1
    with pytest.raises(NotEnded):
        client.wait_visible(heavy, wait_s=0)
    while waiting_messages(app):
        work(app)
    assert client.wait_visible(heavy, wait_s=0).added == 1


@pytest.mark.parametrize("failure", [AssertionError(), KeyError("docs")], ids=repr)
def test_an_unexpected_error_ends_the_message_and_only_the_log_has_its_details(
    app: Celery, client: Chorale, failure: Exception
) -> None:
    with failing(failure), structlog.testing.capture_logs() as logged:
        indexed = client.wait_visible(done(app, client.upsert("docs", [TEA])))
    assert indexed.error == "an unexpected error; the log of the worker has it"
    assert [(line["kind"], line["exc_info"]) for line in logged] == [(type(failure).__name__, failure)]
    assert not waiting_messages(app)


def test_the_write_that_was_sent_last_wins_in_whatever_order_workers_process_the_messages(
    app: Celery, client: Chorale
) -> None:
    client.upsert("docs", [TEA, RENT])
    client.delete("docs", ["tea"])
    client.upsert("docs", [RENT | {"text": "The rent is due on the first."}])
    work(app, last_first=True)
    assert indexed_ids(app) == {"rent"}
    assert "on the first" in app.resources.store("local").texts("docs", ["rent#0"])["rent#0"].text

    client.delete("docs", ["tea", "rent"])
    later = client.upsert("docs", [TEA])
    work(app, last_first=True)
    assert indexed_ids(app) == {"tea"}
    assert client.wait_visible(later).is_whole


def test_a_document_deleted_before_its_namespace_exists_stays_deleted(app: Celery, client: Chorale) -> None:
    client.upsert("docs", [TEA, RENT])
    deleted = client.delete("docs", ["tea"])
    work(app, last_first=True)
    assert indexed_ids(app) == {"rent"}
    assert client.wait_visible(deleted).error == "there is no namespace 'docs'; there are: none yet"


@pytest.mark.parametrize("last_first", [True, False])
def test_a_namespace_is_deleted_with_what_was_handed_in_before_and_made_anew_by_what_comes_after(
    app: Celery, client: Chorale, last_first: bool
) -> None:
    done(app, client.upsert("docs", [RENT]))
    older = client.upsert("docs", [TEA])
    deleted = client.delete_namespace("docs")
    work(app, last_first=last_first)
    assert client.wait_visible(deleted).error is None
    # In both orders the older message has an outcome, and the namespace stays deleted.
    assert client.wait_visible(older).error is None
    assert not app.resources.writing_store.namespaces(names=["docs"])

    older = client.upsert("docs", [TEA])
    client.delete_namespace("docs")
    client.upsert("docs", [RENT])
    work(app, last_first=last_first)
    assert indexed_ids(app) == {"rent"}
    assert client.wait_visible(older).reasons in ({}, {"superseded": 1})


def test_a_command_deletes_a_namespace_with_what_waits(app: Celery, client: Chorale) -> None:
    done(app, client.upsert("docs", [RENT]))
    waiting = client.upsert("docs", [TEA])
    resources = app.resources
    drop_namespace(resources, "docs", WriteOrder(resources.redis, "docs", next_stamp(resources.redis)))
    work(app)
    assert not resources.writing_store.namespaces(names=["docs"])
    assert client.wait_visible(waiting).reasons == {"superseded": 1}


def test_an_older_message_that_finds_its_namespace_deleted_just_before_it_makes_it_leaves_none(
    app: Celery, client: Chorale, monkeypatch: pytest.MonkeyPatch
) -> None:
    done(app, client.upsert("docs", [RENT]))
    waiting = client.upsert("docs", [TEA])
    resources, create = app.resources, DocumentStore.create

    def deleted_and_then_made(store: DocumentStore, *args: Any, **named: Any) -> Manifest:
        monkeypatch.setattr(DocumentStore, "create", create)
        drop_namespace(resources, "docs", WriteOrder(resources.redis, "docs", next_stamp(resources.redis)))
        return create(store, *args, **named)

    monkeypatch.setattr(DocumentStore, "create", deleted_and_then_made)
    work(app)
    assert not resources.writing_store.namespaces(names=["docs"])
    assert client.wait_visible(waiting).reasons == {"superseded": 1}


def test_a_namespace_that_an_older_message_is_making_is_deleted_when_it_is_made(
    app: Celery, client: Chorale, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = client.upsert("docs", [TEA])
    resources, make = app.resources, DocumentStore._make
    deletion = WriteOrder(resources.redis, "docs", next_stamp(resources.redis))
    drop = partial(drop_namespace, resources, "docs", deletion)
    deleting = threading.Thread(target=retried, args=(drop, WriterBusy), kwargs={"pause_s": lambda _: 0.01})

    def made_while_it_is_deleted(store: DocumentStore, *args: Any) -> Manifest:
        deleting.start()
        until(lambda: resources.redis.zscore(WRITTEN + "docs", NAMESPACE))
        return make(store, *args)

    monkeypatch.setattr(DocumentStore, "_make", made_while_it_is_deleted)
    work(app)
    deleting.join()
    assert not resources.writing_store.namespaces(names=["docs"])
    assert client.wait_visible(waiting).reasons == {"superseded": 1}


@pytest.mark.slow
def test_a_document_deleted_while_its_namespace_is_being_created_stays_deleted(
    app: Celery, client: Chorale, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.upsert("docs", [TEA, RENT])
    (older,) = waiting_messages(app)
    app.resources.redis.delete(QUEUE)
    delete = tasks.indexing.namespace_writer._delete

    def finds_none_and_then_it_is_made(*args: Any, **named: Any) -> Any:
        monkeypatch.setattr(tasks.indexing.namespace_writer, "_delete", delete)
        try:
            return delete(*args, **named)
        except BadIndex:
            app.resources.redis.lpush(QUEUE, older)
            work(app)
            assert indexed_ids(app) == {"rent", "tea"}
            raise

    monkeypatch.setattr(tasks.indexing.namespace_writer, "_delete", finds_none_and_then_it_is_made)
    assert client.wait_visible(done(app, client.delete("docs", ["tea"]))).deleted == 1
    assert indexed_ids(app) == {"rent"}


def test_a_redelivered_message_overwrites_no_later_write(app: Celery, client: Chorale) -> None:
    ticket = client.upsert("docs", [TEA])
    (again,) = waiting_messages(app)
    work(app)
    client.delete("docs", ["tea"])
    work(app)
    app.resources.redis.lpush(QUEUE, again)
    work(app)
    assert indexed_ids(app) == set()
    assert client.wait_visible(ticket).added == 1, "the same outcome as before"


def in_between(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], None]) -> None:
    """Once, when a message is embedded and has not got its namespace yet."""
    take = EmbeddingPrefetch.take

    def slowly(ahead: EmbeddingPrefetch, *args: Any) -> list[Any]:
        monkeypatch.setattr(EmbeddingPrefetch, "take", take)
        documents = take(ahead, *args)
        happens()
        return documents

    monkeypatch.setattr(EmbeddingPrefetch, "take", slowly)


@pytest.mark.parametrize("fails", [False, True], ids=["writes", "fails for now"])
def test_the_slower_of_two_workers_with_the_same_message_drops_it(
    app: Celery, client: Chorale, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    ticket = client.upsert("docs", [TEA])
    (again,) = waiting_messages(app)

    def the_other_does_it() -> None:
        app.resources.redis.lpush(QUEUE, again)
        work(app)
        assert client.wait_visible(ticket, wait_s=0).added == 1
        client.delete("docs", ["tea"])
        work(app)
        if fails:
            # An hour later; ages are in whole seconds.
            app.resources.redis.delete(INDEXED + ticket)
            monkeypatch.setattr(tasks.indexing.message_order, "OUTCOME_TTL_S", -2)
            raise StoreUnavailable("the documents' database does not answer")

    in_between(monkeypatch, the_other_does_it)
    work(app)
    assert not waiting_messages(app)
    assert indexed_ids(app) == set()
    assert fails or client.wait_visible(ticket, wait_s=0).added == 1, "the same outcome as before"


@pytest.mark.slow
@pytest.mark.parametrize("is_stamped", [True, False])
def test_two_messages_with_the_same_task_id_are_both_indexed(
    app: Celery, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch, is_stamped: bool
) -> None:
    def send(document: dict[str, str], **more: int) -> None:
        kwargs = {"namespace": "docs", "documents": [document], **more}
        app.send_task("chorale.index", kwargs=kwargs, queue=QUEUE, task_id="nightly")

    def the_other_is_done() -> None:
        send(TEA, **({"handed_in": before} if is_stamped else {}))
        work(app)

    before = next_stamp(redis_client)
    in_between(monkeypatch, the_other_is_done)
    send(RENT)
    work(app)
    assert indexed_ids(app) == {"tea", "rent"}


def test_the_outcome_of_a_message_is_stored_although_the_memory_of_redis_is_full(
    app: Celery, client: Chorale
) -> None:
    ticket, server = client.upsert("docs", [TEA]), app.resources.redis
    server.config_set("maxmemory", server.info("memory")["used_memory"] // 2)
    try:
        work(app)
    finally:
        server.config_set("maxmemory", 0)
    assert client.wait_visible(ticket, wait_s=0).added == 1
    assert not server.exists(NOT_DONE + "docs")


def test_messages_without_a_stamp_are_processed_in_the_order_in_which_they_arrive(
    app: Celery, client: Chorale
) -> None:
    app.send_task("chorale.index", kwargs={"namespace": "docs", "documents": [TEA]}, queue=QUEUE)
    work(app)
    app.send_task("chorale.delete", kwargs={"namespace": "docs", "ids": ["tea"]}, queue=QUEUE)
    work(app)
    assert indexed_ids(app) == set()
    assert not app.resources.redis.exists(NOT_DONE + "docs", WRITTEN + "docs")


def test_a_message_in_progress_is_written_although_redis_is_emptied_meanwhile(
    app: Celery, client: Chorale, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_between(monkeypatch, lambda: cast("None", redis_client.flushall()))
    client.upsert("docs", [TEA])
    work(app)
    assert indexed_ids(app) == {"tea"}


def test_wait_visible_says_why_a_ticket_is_unfinished_and_when_a_ticket_is_unknown(
    app: Celery, client: Chorale
) -> None:
    ticket = client.upsert("docs", [TEA])
    with pytest.raises(NotEnded, match=f"^{ticket} is not indexed yet; ask again$"):
        client.wait_visible(ticket, wait_s=0)
    with failing(StoreUnavailable("the database does not answer")):
        work(app)
    with pytest.raises(
        NotEnded, match=f"^{ticket} is not indexed yet: the database does not answer; ask again$"
    ):
        client.wait_visible(ticket, wait_s=0)
    assert client.wait_visible(done(app, ticket)).added == 1

    app.resources.redis.delete(INDEXED + ticket)  # an hour later
    for unknown in (ticket, "docs." + "0" * 32):
        with pytest.raises(UnknownRequest, match=f"^'{unknown}' not found"):
            client.wait_visible(unknown, wait_s=0)
    for foreign in ("0" * 32, "nightly", "docs.nightly"):
        with pytest.raises(NotEnded):
            client.wait_visible(foreign, wait_s=0)


def test_a_document_is_deleted_by_the_id_that_it_was_sent_with(app: Celery, client: Chorale) -> None:
    ids = [unicodedata.normalize("NFD", "Café menu"), " padded ", 7]
    documents = [{"id": id_, "text": "coffee"} for id_ in ids]
    client.wait_visible(done(app, client.upsert("docs", [*documents, TEA])))
    assert indexed_ids(app) == {unicodedata.normalize("NFC", "Café menu"), "padded", "7", "tea"}

    client.upsert("docs", documents)
    deleted = client.delete("docs", cast("list[str]", ids))
    work(app, last_first=True)
    assert indexed_ids(app) == {"tea"}
    assert client.wait_visible(deleted).deleted == 3
