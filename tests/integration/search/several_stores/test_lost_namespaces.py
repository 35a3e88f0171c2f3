"""What a store lost, refused or was never given, and how it is noticed."""

from __future__ import annotations

import pytest
from sqlalchemy import delete

from models.document_tables import state_table
from models.errors import (
    InvalidAnswer,
    NotEverywhere,
    StoreUnavailable,
)
from search.embedded.store import EmbeddedStore
from search.several_stores.document_table import StoreResult
from search.several_stores.store import ClusteredStore
from tests.support.stores.failing_store import FailingStore
from tests.support.stores.several_stores import MANIFEST, NS, a_document, shown


def test_a_store_that_lost_its_namespace_is_given_everything_again(
    store: ClusteredStore, vectors: FailingStore
) -> None:
    everything = {f"d{number}": "1" for number in range(5)}
    store.upsert(NS, [a_document(name) for name in everything])
    vectors.drop(NS)
    # A batch finds it missing and goes in all the same.
    store.upsert(NS, [a_document("d0", revision="2")])
    assert shown(vectors) == {"d0": "2"}
    assert store.settle(NS) == {}
    assert shown(vectors) == everything | {"d0": "2"}
    vectors.drop(NS)
    # So does the next run, which makes it before its first batch.
    store.create(NS, MANIFEST)
    assert set(store.unwritten(NS)) == set(everything)
    assert store.settle(NS) == {}
    assert shown(vectors) == everything | {"d0": "2"}
    vectors.drop(NS)
    assert store.settle(NS) == {}
    assert shown(vectors) == everything | {"d0": "2"}


def test_what_was_dropped_in_some_stores_alone_is_whole_again_when_it_is_indexed_again(
    store: ClusteredStore, texts: EmbeddedStore, vectors: FailingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.upsert(NS, [a_document("a"), a_document("b")])

    def away(namespace: str) -> bool:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr(vectors, "drop", away)
        with pytest.raises(StoreUnavailable):
            store.drop(NS)
    assert texts.namespaces() == []
    store.create(NS, MANIFEST)
    assert store.settle(NS) == {}
    assert shown(texts) == shown(vectors) == store.revisions(NS, "tests") == {"a": "1", "b": "1"}


def test_a_store_that_answers_nonsense_to_a_deletion_is_asked_again(
    store: ClusteredStore, texts: EmbeddedStore, vectors: FailingStore
) -> None:
    store.upsert(NS, [a_document("a"), a_document("b")])
    vectors.failure = InvalidAnswer("no JSON")
    with pytest.raises(NotEverywhere) as raised:
        store.delete(NS, ["a"])
    assert raised.value.failures == {"a": "vectors: no JSON"} == store.settle(NS)
    vectors.failure = None
    assert store.settle(NS) == {}
    assert shown(texts) == shown(vectors) == {"b": "1"}


def test_documents_that_a_store_shows_are_not_looked_through_again(store: ClusteredStore) -> None:
    store.upsert(NS, [a_document("a"), a_document("b")])
    store.settle(NS)
    build = store.known(NS)
    with store.exclusive(NS), store.table._database.writing(NS) as connection:
        connection.execute(delete(state_table))
    assert store.table.behind(build, "texts") == {}
    store.upsert(NS, [a_document("c")])
    assert store.table.behind(build, "texts") == {}
    # Until somebody has compared them.
    with store.exclusive(NS):
        store.table.mark_behind(build, "texts", ["never"])
    assert store.table.behind(build, "texts").keys() == {"a", "b"}
    assert store.table.behind(build, "vectors") == {}


def test_what_a_crash_left_unwritten_is_not_hidden_by_the_batches_after_it(
    store: ClusteredStore, texts: EmbeddedStore
) -> None:
    store.upsert(NS, [a_document("a")])
    store.settle(NS)
    build = store.known(NS)
    with store.exclusive(NS):
        # As far as a process comes that is killed before it writes to a store.
        store.table.put(build, [a_document("lost"), a_document("too")])
    store.upsert(NS, [a_document("b")])
    assert store.table.behind(build, "texts").keys() == {"lost", "too"}
    with store.exclusive(NS):
        # One part of the batch was written, and then the process was killed again.
        texts.upsert(NS, [a_document("lost")])
        told = StoreResult(store.table.changes(build, ["lost"]), {})
        store.table.record(build, {"texts": told}, stores=store.stores)
    assert store.table.behind(build, "texts").keys() == {"too"}
    assert store.settle(NS) == {}
    assert shown(texts).keys() == {"a", "b", "lost", "too"}


def test_a_document_of_before_that_a_store_refuses_now_is_looked_for_again(store: ClusteredStore) -> None:
    store.upsert(NS, [a_document("a"), a_document("b")])
    store.settle(NS)
    build = store.known(NS)
    with store.exclusive(NS):
        told = StoreResult(store.table.changes(build, ["a"]), {"a": "too large"})
        store.table.record(build, {"texts": told}, stores=store.stores)
    assert store.table.behind(build, "texts") == {"a": "too large"}
