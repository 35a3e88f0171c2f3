"""What a Weaviate that is wrong, slow or gone comes to: one failure of the right kind, in time, without a secret."""

from __future__ import annotations

import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from config.pipeline import StoreDeclaration
from models.errors import (
    BadIndex,
    PartlyWritten,
    StageFailure,
    StoreTimeout,
    StoreUnavailable,
    Unauthorised,
)
from models.weaviate_endpoint import WeaviateEndpoint
from search.weaviate.store import WeaviateStore
from tasks.weaviate import open_weaviate
from tests.certificates import Certificate
from tests.contracts.store_documents import EAST, MANIFEST, document, questions
from tests.redis_server import free_port
from tests.weaviate_server import WeaviateServer, shared_weaviate

KEY = "the-administrators-key"


@pytest.fixture(scope="module")
def server() -> Iterator[WeaviateServer]:
    with WeaviateServer(key=KEY) as server:
        yield server


@pytest.fixture
def store(server: WeaviateServer) -> Iterator[WeaviateStore]:
    store = WeaviateStore(server.endpoint(), key=KEY)
    store.create("ns", MANIFEST)
    store.upsert("ns", [document("a", "pear")])
    yield store
    store.drop("ns")
    store.close()


def calls(store: WeaviateStore) -> list[Callable[[], object]]:
    """What a request asks, each within half a second."""
    return [
        lambda: store.search_text("ns", ["pear"], depth=3, timeout_s=0.5),
        lambda: store.search_vectors("ns", questions(EAST), depth=3, timeout_s=0.5),
        lambda: store.texts("ns", ["a#0"], timeout_s=0.5),
        lambda: store.vectors("ns", ["a#0"], timeout_s=0.5),
        lambda: store.generation("ns", timeout_s=0.5),
    ]


def test_a_server_that_prunes_wrongly_is_named_once_and_one_that_does_not_is_not(
    store: WeaviateStore,
) -> None:
    with capture_logs() as logs:
        store.search_text("ns", ["pear"], depth=1)
    assert logs == []
    with shared_weaviate() as other:
        other.create("ns", MANIFEST)
        with capture_logs() as logs:
            for _ in range(2):
                other.search_text("ns", ["pear"], depth=1)
                other.search_hybrid("ns", ["pear"], questions(EAST), alpha=0.5, fusion="ranked", depth=1)
    (said,) = logs
    assert "USE_INVERTED_SEARCHABLE=false" in said["event"]


def test_a_slow_name_server_costs_no_more_than_the_time_given(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answered.wait(10))
    store = WeaviateStore(WeaviateEndpoint(url="http://localhost:8080"))
    started = time.monotonic()
    with pytest.raises(StoreTimeout):
        store.search_text("ns", ["pear"], depth=3, timeout_s=0.3)
    assert time.monotonic() - started < 2
    answered.set()
    store.close()


def test_a_paused_server_is_a_timeout_in_time_and_serves_again(
    server: WeaviateServer, store: WeaviateStore
) -> None:
    server.pause()
    try:
        for call in calls(store):
            began = time.monotonic()
            with pytest.raises(StoreTimeout, match=r"within 0\.5 s"):
                call()
            assert time.monotonic() - began < 1.5
    finally:
        server.go_on()
    (ranking,) = store.search_text("ns", ["pear"], depth=3, timeout_s=30)
    assert len(ranking.hits) == 1


def test_a_killed_server_is_unavailable_in_time_and_found_again_once_it_is_back(
    server: WeaviateServer, store: WeaviateStore
) -> None:
    server.kill()
    try:
        for call in calls(store):
            began = time.monotonic()
            with pytest.raises(StoreUnavailable, match="is it running"):
                call()
            assert time.monotonic() - began < 1.5
    finally:
        server.launch()
    (ranking,) = store.search_text("ns", ["pear"], depth=3, timeout_s=30)
    assert len(ranking.hits) == 1


@pytest.mark.parametrize("key", ["a-wrong-key", None])
def test_a_wrong_key_or_none_is_unauthorised_and_stands_nowhere(
    server: WeaviateServer, key: str | None
) -> None:
    store = WeaviateStore(server.endpoint(api_key_env="WEAVIATE_KEY"), key=key)
    try:
        with pytest.raises(Unauthorised, match="api_key_env") as raised:
            store.search_text("ns", ["pear"], depth=3, timeout_s=5)
    finally:
        store.close()
    assert "a-wrong-key" not in str(raised.value) + repr(store) + repr(vars(store))


def test_a_key_from_a_file_is_sent_without_the_end_of_its_line(
    server: WeaviateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_KEY", f"{KEY}\n")
    options = server.endpoint(api_key_env="OUR_KEY").model_dump(include={"url", "grpc_port", "api_key_env"})
    store = open_weaviate(StoreDeclaration(name="vectors", kind="weaviate", options=options))
    assert store.namespaces() == []
    store.close()


@pytest.mark.parametrize(
    ("key", "name"), [(f"{KEY}\n", "LocalProtocolError"), (f"{KEY}ü", "UnicodeEncodeError")]
)
def test_what_the_client_makes_of_a_key_that_it_cannot_send_shows_no_key(
    server: WeaviateServer, key: str, name: str
) -> None:
    store = WeaviateStore(server.endpoint(), key=key)
    for call in calls(store):
        with pytest.raises(StageFailure, match=rf"\({name}\)$") as raised:
            call()
        assert KEY not in "".join(traceback.format_exception(raised.value))
    store.close()


def test_what_the_server_refuses_is_named_and_stays_what_it_was(store: WeaviateStore) -> None:
    # Of fifteen megabytes, where the server takes ten in one message.
    huge = document("a", "plum", metadata={"blob": "€" * 4_900_000}, revision="new")
    with pytest.raises(PartlyWritten, match="a: Weaviate refused 'a#0': larger than a message") as raised:
        store.upsert("ns", [huge, document("b", "plum")])
    assert list(raised.value.failures) == ["a"]
    assert raised.value.generation == store.generation("ns")
    rankings = store.search_text("ns", ["pear", "plum"], depth=3, timeout_s=30)
    assert [[hit.passage_id for hit in ranking.hits] for ranking in rankings] == [["a#0"], ["b#0"]]
    assert store.revisions("ns", "docs") == {"a": "1", "b": "1"}


def test_an_address_where_nobody_listens_is_unavailable() -> None:
    store = WeaviateStore(WeaviateEndpoint(url=f"http://127.0.0.1:{free_port()}"))
    try:
        with pytest.raises(StoreUnavailable, match="`url` and `grpc_port`"):
            store.search_text("ns", ["pear"], depth=3, timeout_s=2)
    finally:
        store.close()


def test_a_wrong_grpc_port_is_unavailable_in_time(server: WeaviateServer) -> None:
    store = WeaviateStore(server.endpoint(grpc_port=free_port()), key=KEY)
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match="`grpc_port`"):
        store.search_text("ns", ["pear"], depth=3, timeout_s=1)
    assert time.monotonic() - began < 2
    store.close()


def test_nothing_was_ever_made(server: WeaviateServer) -> None:
    store = WeaviateStore(server.endpoint(collection="Never"), key=KEY)
    assert store.namespaces() == []
    with pytest.raises(BadIndex, match="no namespace 'ns': `chorale namespaces list` shows"):
        store.search_text("ns", ["pear"], depth=3, timeout_s=5)
    store.close()


def test_a_store_that_was_closed_opens_again(store: WeaviateStore) -> None:
    store.close()
    store.close()
    assert store.generation("ns") > 0


def test_tls_with_a_certificate_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Certificate.make(tmp_path)
    with WeaviateServer(key=KEY, certificate=own.file, private_key=own.key_file) as server:
        stranger = WeaviateStore(server.endpoint(), key=KEY)
        with pytest.raises(StoreUnavailable):
            stranger.generation("ns")
        stranger.close()
        monkeypatch.setenv("SSL_CERT_FILE", str(own.file))
        store = WeaviateStore(server.endpoint(), key=KEY)
        store.create("ns", MANIFEST)
        store.upsert("ns", [document("a", "pear")])
        (ranking,) = store.search_text("ns", ["pear"], depth=3, timeout_s=10)
        store.close()
    assert [hit.passage_id for hit in ranking.hits] == ["a#0"]
