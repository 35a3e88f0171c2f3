"""A server that is gone, slow, foreign or not Elasticsearch gives one sentence, in time, without a secret."""

from __future__ import annotations

import json
import logging
import socket
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from chorale_client.wire_names import Reason

from models.endpoints import ElasticsearchEndpoint
from models.errors import BadIndex, InvalidAnswer, StageFailure, StoreTimeout, StoreUnavailable, Unauthorised
from search.engines.elasticsearch.bulk_writing import send
from search.engines.elasticsearch.client import ElasticsearchDialect
from search.engines.elasticsearch.connection import Connection, IndexCall
from search.engines.elasticsearch.index_layout import Layout, Words
from search.engines.elasticsearch.lookups import entries
from search.engines.elasticsearch.store import ElasticsearchStore
from search.kinds import open_elasticsearch
from search.protocol import Search
from tests.contracts.store_documents import MANIFEST, document
from tests.support.servers.elasticsearch_server import (
    PRODUCT,
    Answer,
    Impostor,
    corner,
    host_and_port,
    opened,
)
from tests.support.servers.tcp_proxy import TcpProxy
from tests.support.stores.known_index import KnownIndexes, index_of
from tests.support.waiting import until

SECRET = "c2VjcmV0OmtleQ=="


@pytest.fixture(scope="module")
def prefix() -> Iterator[str]:
    """Answers for a namespace `ns` with long texts."""
    with corner() as prefix:
        with opened(prefix) as store:
            store.create(index_of())
            store.write(index_of(), [document(f"d{n:03}", "pear " + "word " * 2_000) for n in range(200)], ())
        yield prefix


@pytest.fixture
def proxy() -> Iterator[TcpProxy]:
    with TcpProxy(host_and_port()) as proxy:
        yield proxy


@pytest.fixture
def store(proxy: TcpProxy, prefix: str) -> Iterator[ElasticsearchStore]:
    with opened(prefix, url=f"http://127.0.0.1:{proxy.port}", timeout_s=0.5, write_timeout_s=1) as store:
        yield store


def count(store: ElasticsearchStore, timeout_s: float = 10) -> int:
    (ranking,) = store.search_text("ns", ["pear"], Search(depth=1_000, timeout_s=timeout_s))
    return len(ranking.hits)


def test_a_connection_is_reused_and_a_broken_one_replaced_within_the_time(
    store: ElasticsearchStore, proxy: TcpProxy
) -> None:
    assert [count(store) for _ in range(20)] == [200] * 20
    assert proxy.accepted == 1
    for _ in range(5):
        proxy.cut()
        assert count(store) == 200


CALLS: dict[str, Callable[[ElasticsearchStore, float], object]] = {
    "search_text": lambda store, limit_s: count(store, timeout_s=limit_s),
    "score_text": lambda store, limit_s: store.score_text("ns", ["pear"], [["d000#0"]], timeout_s=limit_s),
    "has": lambda store, _: store.has(index_of()),
    "entries": lambda store, _: list(store.entries(index_of())),
    "upsert": lambda store, _: store.write(index_of(), [document("new", "pear")], ()),
    "delete": lambda store, _: store.write(index_of(), (), ["d000"]),
}


def test_a_server_that_is_gone_is_unavailable_before_the_time_is_over(proxy: TcpProxy, prefix: str) -> None:
    url, limit_s = f"http://127.0.0.1:{proxy.port}", 30.0
    with opened(prefix, url=url, timeout_s=limit_s, write_timeout_s=limit_s) as store:
        count(store)
        proxy.is_refusing = True
        proxy.cut()
        for name, call in CALLS.items():
            with pytest.raises(StoreUnavailable, match=rf":{proxy.port}.*start it, or check") as raised:
                call(store, limit_s)
            assert raised.value.reason == Reason.UNAVAILABLE, name
        proxy.is_refusing = False
        assert count(store) == 200


def test_a_server_that_is_silent_costs_no_more_than_the_time_given(
    store: ElasticsearchStore, proxy: TcpProxy
) -> None:
    count(store)
    proxy.stall()
    for name, call in CALLS.items():
        with pytest.raises(StoreTimeout) as raised:
            call(store, 0.5)
        assert raised.value.reason == Reason.TIMEOUT, name
    proxy.flow()
    assert count(store) == 200


def test_an_answer_that_drips_costs_no_more_than_the_time_given(prefix: str) -> None:
    drips = (200, b" " * 30_000_000, PRODUCT)
    with (
        Impostor(lambda *_: drips) as server,
        TcpProxy(("127.0.0.1", int(server.url.rsplit(":", 1)[1]))) as slow,
    ):
        slow.delay_s = 0.05
        with opened(prefix, url=f"http://127.0.0.1:{slow.port}", connections=1) as store:
            for _ in range(2):  # the second call finds the only connection free
                with pytest.raises(StoreTimeout, match="did not answer"):
                    count(store, timeout_s=0.5)


def test_a_slow_name_server_costs_no_more_than_the_time_given(
    prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, answered = socket.getaddrinfo, threading.Event()
    with opened(prefix) as store:
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answered.wait() and real(*_, **__))
        with pytest.raises(StoreTimeout, match="did not answer within"):
            count(store, timeout_s=0.3)
        answered.set()
        assert count(store) == 200


def test_threads_that_wait_for_a_connection_wait_no_longer_than_their_time(
    prefix: str, proxy: TcpProxy
) -> None:
    with (
        opened(prefix, url=f"http://127.0.0.1:{proxy.port}", connections=1) as store,
        ThreadPoolExecutor(2) as threads,
    ):
        count(store)
        proxy.stalls_at = b"pear"
        first = threads.submit(count, store, 60)
        until(lambda: proxy.is_stalled)
        with pytest.raises(StoreTimeout, match="raise the store's `connections`"):
            threads.submit(count, store, 0.5).result()
        proxy.stalls_at = None
        proxy.flow()
        assert first.result() == 200


def refusal(status: int, kind: str, reason: str) -> Answer:
    error = {"type": kind, "reason": reason, "root_cause": [{"type": kind, "reason": reason}]}
    return status, json.dumps({"error": error, "status": status}).encode(), PRODUCT


def from_opensearch(status: int, kind: str, reason: str) -> Answer:
    """OpenSearch answers in the form of Elasticsearch, and does not name a product."""
    status, body, _ = refusal(status, kind, reason)
    return status, body, {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("answer", "failure", "message"),
    [
        (refusal(401, "security_exception", "unable to authenticate"), Unauthorised, "check api_key_env"),
        (refusal(403, "security_exception", "unauthorized"), Unauthorised, "the rights on the indices"),
        (
            refusal(503, "cluster_block_exception", "no master"),
            StoreUnavailable,
            "busy or starting.*no master",
        ),
        (
            refusal(403, "cluster_block_exception", "read-only"),
            StoreUnavailable,
            "allows no writes.*read-only",
        ),
        (refusal(500, "null_pointer_exception", "oops"), StoreUnavailable, "failed.*oops"),
        (refusal(400, "media_type_header_exception", "compatible-with=8"), InvalidAnswer, "use 8 or 9"),
        ((200, b"{}", {"content-type": "application/json"}), InvalidAnswer, "not Elasticsearch 8 or 9"),
        (
            from_opensearch(400, "illegal_argument_exception", "unrecognized parameter: [features]"),
            InvalidAnswer,
            "not Elasticsearch 8 or 9 .OpenSearch is not supported",
        ),
        (
            from_opensearch(404, "index_not_found_exception", "no such index"),
            InvalidAnswer,
            "not Elasticsearch 8 or 9 .OpenSearch is not supported",
        ),
        ((200, b"{no json", PRODUCT), InvalidAnswer, "is not JSON"),
        ((200, b'{"a": 1}', PRODUCT), InvalidAnswer, "in an unknown format"),
        ((503, b"<a>\n</a>", {"content-type": "application/xml"}), StoreUnavailable, "starting.*<a> </a>"),
        ((429, b"<html>", PRODUCT), StoreUnavailable, "busy or starting.*<html>"),
        ((413, b"<html>", {"content-type": "text/html"}), BadIndex, "refuses requests of this size"),
        ((301, b"<a/>", {"content-type": "application/xml"}), InvalidAnswer, "not Elasticsearch 8 or 9"),
    ],
)
def test_a_server_error_becomes_one_sentence(
    answer: Answer, failure: type[StageFailure], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with Impostor(lambda *_: answer) as server:
        endpoint = ElasticsearchEndpoint(url=server.url, api_key_env="UNUSED")
        store = ElasticsearchStore(endpoint, api_key=SECRET)
        store.reader = KnownIndexes()
        with pytest.raises(failure, match=message) as raised:
            count(store)
        store.close()
        assert server.asked[0][1]["authorization"] == f"ApiKey {SECRET}"
    assert "\n" not in str(raised.value)
    assert SECRET not in f"{raised.value!r} {store!r} {vars(store)} {endpoint!r} {caplog.text}"


@pytest.mark.parametrize(
    ("options", "secret", "header"),
    [
        ({"api_key_env": "OUR_SECRET"}, f"{SECRET}\n", f"ApiKey {SECRET}"),
        # base64 of me:hunter2
        ({"username": "me", "password_env": "OUR_SECRET"}, "hunter2\r\n", "Basic bWU6aHVudGVyMg=="),
    ],
    ids=["key", "password"],
)
def test_a_secret_from_a_file_is_sent_without_its_newline_and_never_shown(
    options: dict[str, str],
    secret: str,
    header: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OUR_SECRET", secret)
    with Impostor(lambda *_: refusal(401, "security_exception", "no")) as server:
        store = open_elasticsearch("texts", {"url": server.url, **options})
        store.reader = KnownIndexes()
        with pytest.raises(Unauthorised) as raised:
            count(store)
        store.close()
        assert server.asked[0][1]["authorization"] == header
    for hidden in (secret.strip(), header.split()[1]):
        assert hidden not in f"{raised.value!r} {store!r} {vars(store)} {caplog.text}"


def test_the_clients_error_about_an_invalid_key_does_not_show_it() -> None:
    with Impostor(lambda *_: (200, b"{}", PRODUCT)) as server:
        store = ElasticsearchStore(ElasticsearchEndpoint(url=server.url), api_key=f"{SECRET}\n")
        store.reader = KnownIndexes()
        for call in CALLS.values():
            with pytest.raises(StageFailure, match=r"ValueError") as raised:
                call(store, 0.5)
            assert SECRET not in "".join(traceback.format_exception(raised.value))
        store.close()


def read(connection: Connection) -> None:
    layout = Layout("i", MANIFEST, Words("english", MANIFEST), False, 1)
    list(entries(IndexCall(connection, layout, connection.deadline(5))))


def write(connection: Connection) -> None:
    send(connection, [{"_op_type": "index", "_index": "i", "_id": "a", "_source": {}}])


@pytest.mark.parametrize(
    ("call", "body"),
    [
        *(
            (read, body)
            for body in (
                b"{}",
                b'{"responses": null}',
                b'{"responses": [5]}',
                b'{"responses": [{"hits": {"hits": [{}]}}]}',
            )
        ),
        *((write, body) for body in (b"{}", b'{"items": [5]}', b'{"items": []}')),
    ],
)
def test_an_answer_in_an_unknown_format_and_a_write_without_a_result_are_invalid_answers(
    call: Callable[[Connection], None], body: bytes
) -> None:
    with Impostor(lambda *_: (200, body, PRODUCT)) as server:
        connection = Connection(ElasticsearchDialect(ElasticsearchEndpoint(url=server.url)))
        with pytest.raises(InvalidAnswer, match="in an unknown format"):
            call(connection)
        connection.close()


@pytest.mark.parametrize(
    "answer", [refusal(503, "x", "starting"), (504, b"<a/>", {"content-type": "application/xml"})]
)
def test_a_busy_server_is_asked_again_within_the_time(answer: Answer) -> None:
    with Impostor(lambda *_: answer) as server:
        store = ElasticsearchStore(ElasticsearchEndpoint(url=server.url))
        store.reader = KnownIndexes()
        with pytest.raises(StoreUnavailable):
            count(store, timeout_s=30)
        store.close()
    assert len(server.asked) == 4


def test_an_https_address_of_a_server_without_tls_says_what_to_check() -> None:
    with Impostor(lambda *_: (200, b"{}", PRODUCT)) as server:
        store = ElasticsearchStore(ElasticsearchEndpoint(url=server.url.replace("http:", "https:")))
        store.reader = KnownIndexes()
        with pytest.raises(StoreUnavailable, match="check the scheme, ca_file"):
            count(store, timeout_s=30)
        store.close()
