"""Documents that are handed in through RabbitMQ: a caller can rely on the confirmation of RabbitMQ."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import chorale_client.publisher
import pytest
from chorale_client import Chorale, ServiceUnavailable
from kombu import Connection

import tasks.indexing.handed_in_documents
import tasks.indexing.index_tasks
from config.settings import Settings
from models.errors import StoreUnavailable
from tasks.registration import make_app
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.rabbitmq import own_queues
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.services import need
from tests.support.servers.tcp_proxy import TcpProxy

QUEUE = "chorale.index"
TEA = {"id": "tea", "title": "Tea", "text": "Green tea is brewed at eighty degrees."}
RENT = {"id": "rent", "title": "Rent", "text": "The rent is due on the third working day."}

AWAY_THREE_TIMES = """
import tasks.indexing.handed_in_documents, tasks.indexing.index_tasks
from models.errors import StoreUnavailable

tasks.indexing.index_tasks.PATIENCE_S = 0.0
index_corpus, failures = tasks.indexing.handed_in_documents.index_corpus, [StoreUnavailable("away")] * 3

def fails_first(*args, **options):
    if failures:
        raise failures.pop()
    return index_corpus(*args, **options)

tasks.indexing.handed_in_documents.index_corpus = fails_first
"""


@pytest.fixture
def url() -> str:
    return need("rabbitmq", "what becomes of documents on their way to it is not tested")


@pytest.fixture
def broker(url: str) -> Iterator[Connection]:
    with own_queues(url, [QUEUE]) as connection:
        yield connection


@pytest.fixture
def proxy(url: str, broker: Connection) -> Iterator[TcpProxy]:
    parts = urlsplit(url)
    with TcpProxy((parts.hostname or "", parts.port or 5672)) as proxy:
        yield proxy


def at(url: str, *, port: int, password: str | None = None) -> str:
    parts = urlsplit(url)
    netloc = f"{parts.username}:{password or parts.password}@127.0.0.1:{port}"
    return parts._replace(netloc=netloc).geturl()


def waiting(broker: Connection) -> int:
    with broker.channel() as channel:
        return int(channel.queue_declare(QUEUE, passive=True).message_count)


@contextmanager
def silent(proxy: TcpProxy, piece: bytes) -> Iterator[None]:
    """The network holds this piece and what follows, nobody waits long for it, and it never arrives."""
    proxy.stalls_at = piece
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chorale_client.publisher, "ANSWERS_WITHIN_S", 0.5)
        yield
    proxy.cut()
    proxy.flow()


def test_documents_sent_through_rabbitmq_are_indexed_and_deleted_also_after_retries(
    url: str, broker: Connection
) -> None:
    with (
        RedisServer() as server,
        RunningPipeline(
            server, queues=[QUEUE], environment={"CHORALE_BROKER_URL": url}, preload=AWAY_THREE_TIMES
        ) as running,
    ):
        client = running.client()
        assert client.wait_visible(client.upsert("docs", [TEA, RENT])).added == 2
        assert client.wait_visible(client.delete("docs", ["tea"])).deleted == 1
        assert set(running.resources.writing_store.revisions("docs", "task")) == {"rent"}
        assert waiting(broker) == 0


def test_documents_are_accepted_by_rabbitmq_although_redis_is_nearly_full(
    url: str, broker: Connection
) -> None:
    with RedisServer() as server:
        redis_client = server.client()
        redis_client.setrange("others", 100_000_000, b"x")
        # More than three quarters are in use.
        redis_client.config_set("maxmemory", redis_client.info("memory")["used_memory"] * 5 // 4)
        client = Chorale(server.url, broker_url=url)
        client.upsert("docs", [TEA])
        client.delete("docs", ["tea"])
    assert waiting(broker) == 2


def test_upsert_raises_in_time_when_the_network_to_the_broker_falls_silent(
    url: str, broker: Connection, proxy: TcpProxy, redis_server: RedisServer
) -> None:
    client = Chorale(redis_server.url, broker_url=at(url, port=proxy.port))
    client.upsert("docs", [TEA])
    with (
        silent(proxy, b"yardstick"),
        pytest.raises(ServiceUnavailable, match="the broker has not taken the documents: timed out"),
    ):
        client.upsert("docs", [{"id": "inches", "text": "A yardstick has 36 inches."}])
    assert waiting(broker) == 1

    client.delete("docs", ["tea"])
    assert waiting(broker) == 2


def test_a_worker_returns_a_message_whose_retry_copy_the_broker_did_not_confirm(
    url: str,
    broker: Connection,
    proxy: TcpProxy,
    redis_server: RedisServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise StoreUnavailable("the documents' database does not answer")

    monkeypatch.setattr(tasks.indexing.index_tasks, "PATIENCE_S", 0.0)
    monkeypatch.setattr(tasks.indexing.handed_in_documents, "index_corpus", fails)
    settings = Settings(home=tmp_path, broker_url=at(url, port=proxy.port))
    task = make_app(Resources(settings, load_pipeline(), redis_server.url), queues=(QUEUE,)).tasks[QUEUE]
    work = {"namespace": "docs", "documents": [{"id": "inches", "text": "A yardstick has 36 inches."}]}
    with silent(proxy, b"yardstick"):
        assert task.apply(kwargs=work, task_id="one").state == "REJECTED"
    assert task.apply(kwargs=work, task_id="one").state == "SUCCESS"
    assert waiting(broker) == 1


@pytest.mark.parametrize(
    ("port", "password", "said"), [(None, "wrong", "ACCESS_REFUSED"), (1, None, "Connection refused")]
)
def test_upsert_reports_why_the_broker_refused_the_connection(
    url: str, redis_server: RedisServer, port: int | None, password: str | None, said: str
) -> None:
    broker_url = at(url, port=port or urlsplit(url).port or 5672, password=password)
    with pytest.raises(ServiceUnavailable, match=said):
        Chorale(redis_server.url, broker_url=broker_url).upsert("docs", [TEA])
