"""A Weaviate that is foreign, slow or gone gives one failure of the right kind, in time, without a secret."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from models.declarations.engines import WeaviateEndpoint
from models.errors import PartlyWritten, StageFailure, StoreTimeout, StoreUnavailable, Unauthorised
from search.engines.weaviate.schema import MOST_RESULTS
from search.engines.weaviate.store import WeaviateStore
from search.engines.weaviate.wand_pruning import Pruning
from search.protocol import Search
from tests.contracts.store_documents import EAST, document, questions
from tests.support.servers.certificates import Certificate
from tests.support.servers.local_http import LocalHttp, QuietHandler
from tests.support.servers.weaviate_server import WeaviateServer, shared_weaviate
from tests.support.stores.known_index import index_of, revisions, with_known_indexes
from tests.support.stores.weaviate_namespaces import hit_ids

ROOT = Path(__file__).parents[5]
KEY = "the-administrators-key"


@pytest.fixture(scope="module")
def server() -> Iterator[WeaviateServer]:
    with WeaviateServer(key=KEY) as server:
        yield server


@pytest.fixture
def store(server: WeaviateServer) -> Iterator[WeaviateStore]:
    store = with_known_indexes(WeaviateStore(server.endpoint(), key=KEY))
    store.create(index_of())
    store.write(index_of(), [document("a", "pear")], ())
    yield store
    store.drop(index_of())
    store.close()


def calls(store: WeaviateStore, limit_s: float = 30) -> list[Callable[[], object]]:
    """The calls of a request."""
    search = Search(depth=3, timeout_s=limit_s)
    return [
        lambda: store.search_text("ns", ["pear"], search),
        lambda: store.search_vectors("ns", questions(EAST), search),
    ]


def test_only_a_server_that_prunes_wrongly_is_logged_and_only_once(store: WeaviateStore) -> None:
    with capture_logs() as logs:
        store.search_text("ns", ["pear"], Search(depth=1, timeout_s=30))
    assert logs == []
    with shared_weaviate() as other:
        other.create(index_of())
        search = Search(depth=1, timeout_s=30)
        with capture_logs() as logs:
            for _ in range(2):
                other.search_text("ns", ["pear"], search)
            other.search_hybrid("ns", ["pear"], questions(EAST), search, alpha=0.5, fusion="ranked")
    (warning,) = logs
    assert "USE_INVERTED_SEARCHABLE=false" in warning["event"]


class Schema(LocalHttp):
    """A server that only answers about the collection."""

    def __init__(self) -> None:
        super().__init__(Collection)
        self.prunes, self.status, self.calls = False, 503, 0


class Collection(QuietHandler):
    def answer(self) -> None:
        self.owner.calls += 1
        settings = {"invertedIndexConfig": {"usingBlockMaxWAND": self.owner.prunes}}
        self.send(self.owner.status, json.dumps(settings).encode())


def test_a_store_asks_about_pruning_until_it_knows_and_again_for_each_index() -> None:
    async def searches(schema: Schema) -> None:
        pruning = Pruning(WeaviateEndpoint(url=schema.origin), key=None)
        assert await pruning.least_hits(index_of()) == MOST_RESULTS, "not known"
        schema.status = 200
        assert [await pruning.least_hits(index_of()) for _ in range(3)] == [0] * 3
        assert schema.calls == 2
        schema.prunes = True  # in a collection that was created again
        assert await pruning.least_hits(index_of()) == 0
        assert await pruning.least_hits(index_of("other")) == MOST_RESULTS

    with Schema() as schema, capture_logs() as logs:
        asyncio.run(asyncio.wait_for(searches(schema), 20))
    assert len(logs) == 1


def test_a_slow_name_server_costs_no_more_than_the_time_given(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    # It fails in the end: a call that waited longer than its own time would raise that failure.
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answered.wait(4))
    store = with_known_indexes(WeaviateStore(WeaviateEndpoint(url="http://localhost:8080")))
    with pytest.raises(StoreTimeout):
        store.search_text("ns", ["pear"], Search(depth=3, timeout_s=0.3))
    answered.set()
    store.close()


def test_a_failing_server_is_named_in_time_and_found_again_once_it_is_back(
    server: WeaviateServer, store: WeaviateStore
) -> None:
    for failing, recovering, limit_s, failure, message in (
        (server.pause, server.go_on, 0.5, StoreTimeout, r"within 0\.5 s"),
        (server.kill, server.launch, 30, StoreUnavailable, "is it running"),
    ):
        failing()
        try:
            for call in calls(store, limit_s):
                with pytest.raises(failure, match=message):
                    call()
        finally:
            recovering()
        assert hit_ids(store, "pear") == ["a#0"]


@pytest.mark.parametrize(
    ("key", "failure", "message"),
    [
        ("a-wrong-key", Unauthorised, "api_key_env"),
        (None, Unauthorised, "api_key_env"),
        (f"{KEY}\n", StageFailure, r"\(LocalProtocolError\)$"),
        (f"{KEY}ü", StageFailure, r"\(UnicodeEncodeError\)$"),
    ],
)
def test_a_wrong_key_is_one_failure_that_does_not_show_it(
    server: WeaviateServer, key: str | None, failure: type[StageFailure], message: str
) -> None:
    store = with_known_indexes(WeaviateStore(server.endpoint(), key=key))
    for call in calls(store):
        with pytest.raises(failure, match=message) as raised:
            call()
        printed = "".join(traceback.format_exception(raised.value)) + repr(store) + repr(vars(store))
        assert not [secret for secret in ("a-wrong-key", KEY) if secret in printed]
    store.close()


def test_a_document_that_the_server_refuses_is_named_and_unchanged(store: WeaviateStore) -> None:
    # Fourteen megabytes of pairs of characters, while the server accepts ten in one message.
    huge = document("a", "漢" * 2_000_000, revision="new")
    with pytest.raises(
        PartlyWritten, match="a: Weaviate refused 'a#0': larger than the server's message limit"
    ) as raised:
        store.write(index_of(), [huge, document("b", "plum")], ())
    assert list(raised.value.failures) == ["a"]
    rankings = store.search_text("ns", ["pear", "plum"], Search(depth=3, timeout_s=30))
    assert [[hit.passage_id for hit in ranking.hits] for ranking in rankings] == [["a#0"], ["b#0"]]
    assert revisions(store) == {"a": "1", "b": "1"}


@pytest.mark.parametrize(
    ("is_connected", "timeout_s", "message"),
    [(False, 1, "did not answer within"), (True, 60, "the store was closed")],
)
def test_a_call_ends_in_time_when_its_store_is_closed(
    server: WeaviateServer,
    is_connected: bool,
    timeout_s: float,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Looking whether anybody listens is a call, too.
    monkeypatch.setattr("search.engines.weaviate.connection._FIRST_PROBE_S", 60.0)
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(1) as thread:
        silent.settimeout(10)
        port = silent.getsockname()[1]
        place = {"grpc_port": port} if is_connected else {"url": f"http://127.0.0.1:{port}"}
        store = with_known_indexes(WeaviateStore(server.endpoint(**place), key=KEY))
        search = Search(depth=3, timeout_s=timeout_s)
        searching = thread.submit(store.search_text, "ns", ["pear"], search)
        with silent.accept()[0]:
            store.close()
            failure = searching.exception(10)
        store.close()
    assert isinstance(failure, StageFailure)
    assert message in str(failure)


def test_two_stores_share_one_event_loop(server: WeaviateServer, caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise gRPC logs a poller error through asyncio."""

    def ask(store: WeaviateStore) -> None:
        store.create(index_of())
        for _ in range(100):
            store.has(index_of())

    stores = [WeaviateStore(server.endpoint(collection=f"Own{i}"), key=KEY) for i in range(2)]
    with ThreadPoolExecutor() as threads:
        list(threads.map(ask, stores))
    for store in stores:
        store.close()
        store.close()
        assert store.has(index_of()), "a closed store opens again"
        store.close()
    assert [one.getMessage() for one in caplog.records if one.name == "asyncio"] == []


FORKS = """
import os, sys
from models.errors import StageFailure
from models.declarations.engines import WeaviateEndpoint
from models.event_loop import running_loop
from search.engines.weaviate.store import WeaviateStore
from tests.support.stores.known_index import index_of

store = WeaviateStore(WeaviateEndpoint.model_validate_json(sys.argv[1]), key=sys.argv[2])
for use in (running_loop, lambda: store.has(index_of())):
    use()
    if (child := os.fork()) == 0:
        try:
            print(store.has(index_of()), flush=True)
        except StageFailure as failure:
            print(failure, flush=True)
        store.close()
        os._exit(0)
    os.waitpid(child, 0)
# gRPC may not have survived it here either.
os._exit(0)
"""


def test_a_forked_child_has_its_own_loop_and_fails_at_once_if_a_store_was_open(
    server: WeaviateServer,
) -> None:
    endpoint = server.endpoint(collection="Never").model_dump_json()
    forking = subprocess.run(
        [sys.executable, "-c", FORKS, endpoint, KEY], capture_output=True, text=True, timeout=60, cwd=ROOT
    )
    refusal = "gRPC does not survive a fork: close the Weaviate stores before, or open them after"
    assert forking.stdout.splitlines() == ["False", refusal], forking.stderr


def test_tls_with_a_private_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Certificate.make(tmp_path)
    with WeaviateServer(key=KEY, certificate=own.file, private_key=own.key_file) as server:
        stranger = WeaviateStore(server.endpoint(), key=KEY)
        with pytest.raises(StoreUnavailable):
            stranger.has(index_of())
        stranger.close()
        monkeypatch.setenv("SSL_CERT_FILE", str(own.file))
        store = with_known_indexes(WeaviateStore(server.endpoint(), key=KEY))
        store.create(index_of())
        store.write(index_of(), [document("a", "pear")], ())
        assert hit_ids(store, "pear") == ["a#0"]
        store.close()
