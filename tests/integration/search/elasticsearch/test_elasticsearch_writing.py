"""Writing: refused documents, rebuilds during searches, and interrupted batches."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

import pytest
from elasticsearch import Elasticsearch

from models.documents import Document
from models.elasticsearch_endpoint import ElasticsearchEndpoint
from models.errors import (
    BadIndex,
    InvalidAnswer,
    ManifestMismatch,
    PartlyWritten,
    StageFailure,
    WrongDeclaration,
)
from search.elasticsearch.bulk import send
from search.elasticsearch.connection import Connection
from search.elasticsearch.store import ElasticsearchStore
from search.protocol import Search
from tests.contracts.store_documents import MANIFEST, document
from tests.support.servers.elasticsearch_server import (
    HUNSPELL,
    PRODUCT,
    Answer,
    Impostor,
    address,
    corner,
    host_and_port,
    opened,
)
from tests.support.servers.tcp_proxy import TcpProxy


def connection(url: str) -> Connection:
    return Connection(ElasticsearchEndpoint(url=url), api_key=None, password=None)


@pytest.fixture(scope="module")
def prefix() -> Iterator[str]:
    with corner() as prefix:
        yield prefix


@pytest.fixture
def store(prefix: str) -> Iterator[ElasticsearchStore]:
    with opened(prefix) as store:
        yield store
        for state in store.namespaces():
            store.drop(state.name)


@pytest.fixture
def client() -> Iterator[Elasticsearch]:
    with Elasticsearch(address(), request_timeout=30) as client:
        yield client


def found(store: ElasticsearchStore, text: str, namespace: str = "ns") -> list[str]:
    (ranking,) = store.search_text(namespace, [text], Search(depth=1_000, timeout_s=30))
    return [hit.passage_id for hit in ranking.hits]


def test_a_document_that_cannot_be_written_fails_alone_and_says_why(store: ElasticsearchStore) -> None:
    store.create("ns", MANIFEST)
    generation = store.upsert("ns", [document("huge", "old pear")])
    batch = [
        document("a", "pear"),
        document("huge", "pear " * 10_000_000),
        document("wrong", "pear", metadata={"when": object()}),
        document("nan", "pear", metadata={"x": float("nan")}),
        document("i" * 9_000, "pear"),
        document("z", "pear"),
    ]
    with pytest.raises(PartlyWritten) as raised:
        store.upsert("ns", batch)
    assert {name[:5]: why[:40] for name, why in raised.value.failures.items()} == {
        "huge": "passage 'huge#0' has 50,000,000 characters"[:40],
        "wrong": "its metadata is not JSON: Object of type "[:40],
        "nan": "its metadata is not JSON: Out of range fl"[:40],
        "iiiii": "its id has 9,000 characters; at most 8,0"[:40],
    }
    assert found(store, "pear") == ["a#0", "z#0", "huge#0"]  # the longer one is the last
    assert raised.value.generation == store.generation("ns") == generation + 1
    assert store.revisions("ns", "docs").keys() == {"a", "huge", "z"}


def test_long_ids_are_kept_whole(store: ElasticsearchStore) -> None:
    name = "docs/" + "ä" * 1_000
    store.create("ns", MANIFEST)
    store.upsert("ns", [document(name, "pear"), document(name + "x", "pear")])
    assert found(store, "pear") == [f"{name}#0", f"{name}x#0"]
    assert store.texts("ns", [f"{name}#0"])[f"{name}#0"].document_id == name
    assert store.delete("ns", [name]) == 1
    assert found(store, "pear") == [f"{name}x#0"]


def test_unchanged_passages_are_not_written_again(
    store: ElasticsearchStore, prefix: str, client: Elasticsearch
) -> None:
    store.create("ns", MANIFEST)
    store.upsert("ns", [document("a", "pear", "plum"), document("b", "pear")])

    def written() -> int:
        stats = client.indices.stats(index=f"{prefix}-ns", metric="indexing")
        return int(stats["_all"]["primaries"]["indexing"]["index_total"])

    before = written()
    store.upsert("ns", [document("a", "pear", "plum"), document("b", "pear")])
    assert written() == before
    store.upsert("ns", [document("a", "pear", "cherry"), document("b", "pear")])
    assert written() == before + 1


def test_the_mapping_never_grows(store: ElasticsearchStore, prefix: str, client: Elasticsearch) -> None:
    store.create("ns", MANIFEST)
    metadata = {f"field {n}": {"of": n} for n in range(2_000)}
    store.upsert("ns", [document("a", "pear", metadata=metadata)])
    ((_, index),) = client.indices.get_mapping(index=f"{prefix}-ns").items()
    assert len(index["mappings"]["properties"]) < 25
    with pytest.raises(Exception, match="strict_dynamic_mapping"):
        client.index(index=f"{prefix}-ns", document={"unknown": 1})
    assert [
        hit.document_id
        for hit in store.search_text("ns", ["pear"], Search(depth=1, filters={"field 7.of": 7}))[0].hits
    ] == ["a"]


def test_another_analyser_or_no_vectors_is_a_manifest_mismatch(
    store: ElasticsearchStore, prefix: str
) -> None:
    store.create("ns", MANIFEST)
    for options, said in (
        ({"analyser": HUNSPELL}, "analyser of the store is 'chorale', asked for {"),
        ({"vectors": True}, "vectors is False, asked for True"),
    ):
        with opened(prefix, **options) as other:
            with pytest.raises(ManifestMismatch, match=said) as raised:
                other.create("ns", MANIFEST)
            assert "chorale index --rebuild" in str(raised.value)
            # It can still be searched with its own analyser.
            assert found(other, "pear") == []


def test_an_analyser_that_the_server_lacks_is_named(prefix: str) -> None:
    unknown_part = {"analyzer": {"chorale": {"type": "custom", "tokenizer": "klingon"}}}
    for analyser in ("klingon", unknown_part):
        said = r"`analyser` is not on the server.*use `chorale`.*klingon"
        with opened(prefix, analyser=analyser) as store, pytest.raises(BadIndex, match=said):
            store.create("ns", MANIFEST)
    with opened(prefix, analyser="klingon") as store:
        assert store.namespaces() == []


def test_an_invalid_name_is_refused(store: ElasticsearchStore) -> None:
    for name in ("Ns", "*", "_all", "a,b", "a.v1"):
        with pytest.raises(WrongDeclaration):
            store.create(name, MANIFEST)
        with pytest.raises(BadIndex):
            found(store, "pear", namespace=name)


def test_two_concurrent_creations_get_the_same_namespace(prefix: str) -> None:
    with ExitStack() as stack:
        stores = [stack.enter_context(opened(prefix)) for _ in range(4)]
        threads = [threading.Thread(target=store.create, args=("ns", MANIFEST)) for store in stores]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        stores[0].upsert("ns", [document("a", "pear")])
        assert [found(store, "pear") for store in stores] == [["a#0"]] * 4
        assert stores[0].drop("ns")


def test_the_next_rebuild_or_drop_removes_what_a_killed_rebuild_left(
    store: ElasticsearchStore, prefix: str, client: Elasticsearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(namespace: str) -> None:
        def documents() -> Iterator[Document]:
            yield document("b", "pear")
            raise InvalidAnswer("killed")

        with monkeypatch.context() as dead:
            dead.setattr(store, "_delete_index", lambda index: None)
            with pytest.raises(InvalidAnswer, match="killed"):
                store.rebuild(namespace, MANIFEST, documents())

    def indices(namespaces: str = "left*") -> list[str]:
        return sorted(client.indices.get(index=f"{prefix}-{namespaces}"))

    # Namespaces whose names start the same keep their unfinished indices.
    killed("left-v1")
    killed("leftover")
    others = [f"{prefix}-left-v1.v1", f"{prefix}-leftover.v1"]
    assert indices() == others
    killed("left")
    assert not store.drop("left")
    assert indices() == others
    store.create("left", MANIFEST)
    store.upsert("left", [document("a", "pear")])
    killed("left")
    assert len(indices("left.v*")) == 2
    store.rebuild("left", MANIFEST, [document("c", "pear")])
    assert indices("left.v*") == [f"{prefix}-left.v4"]
    killed("left")
    assert found(store, "pear", "left") == ["c#0"]
    assert not store.drop("*")
    assert len(indices("left.v*")) == 2
    assert store.drop("left")
    assert indices() == others


def cut_off(proxy: TcpProxy) -> None:
    proxy.is_refusing = True
    proxy.cut()


def write_on(store: ElasticsearchStore, documents: list[Document]) -> None:
    for n in range(50):
        store.upsert("ns", [*documents, document("again", str(n))])


def test_an_interrupted_batch_is_complete_after_a_repetition(prefix: str) -> None:
    with TcpProxy(host_and_port()) as proxy, opened(prefix) as watching:
        url = f"http://127.0.0.1:{proxy.port}"
        with opened(prefix, url=url, write_timeout_s=2) as store:
            store.create("ns", MANIFEST)
            store.upsert("ns", [document("a", "old", "old")])
            bodies = [document("a", "new pear"), *(document(f"d{n}", "pear " * 2_000) for n in range(200))]
            cutting = threading.Timer(0.15, cut_off, (proxy,))
            cutting.start()
            with pytest.raises(StageFailure):
                write_on(store, bodies)
            # Nothing is visible half written.
            assert found(watching, "old") in (["a#0", "a#1"], [])
            proxy.is_refusing = False
            store.upsert("ns", bodies)
            assert found(watching, "old") == []
            assert len(found(watching, "pear")) == 201
            assert store.drop("ns")


def test_what_a_busy_server_rejects_is_sent_again_more_slowly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("elasticsearch.helpers.actions.time.sleep", pauses.append)
    busy = {"type": "es_rejected_execution_exception", "reason": "queue is full"}
    bad = {"type": "document_parsing_exception", "reason": "no", "caused_by": {"reason": "too deep"}}
    rounds: list[list[str]] = []

    def answer(_: str, body: bytes) -> Answer:
        names = [json.loads(line)["index"]["_id"] for line in body.splitlines()[::2]]
        rounds.append(names)
        items: list[dict[str, Any]] = []
        for name in names:
            if name == "busy" and len(rounds) < 3:
                items.append({"index": {"_id": name, "status": 429, "error": busy}})
            elif name == "bad":
                items.append({"index": {"_id": name, "status": 400, "error": bad}})
            else:
                items.append({"index": {"_id": name, "status": 201}})
        return 200, json.dumps({"errors": True, "items": items}).encode(), PRODUCT

    with Impostor(answer) as server, closing(connection(server.url)) as connected:
        actions: list[dict[str, Any]] = [
            {"_op_type": "index", "_index": "i", "_id": name, "_source": {}}
            for name in ("good", "busy", "bad")
        ]
        assert send(connected, actions) == {"bad": "document_parsing_exception: no (too deep)"}
    assert rounds == [["good", "busy", "bad"], ["busy"], ["busy"]]
    assert pauses == [0.25, 0.5]


def test_a_namespace_without_vectors_is_searched_by_words(store: ElasticsearchStore) -> None:
    store.create("ns", replace(MANIFEST, dimension=0))
    held = document("a", "pear")
    store.upsert("ns", [replace(held, passages=(replace(held.passages[0], vector=None),))])
    assert found(store, "pear") == ["a#0"]
