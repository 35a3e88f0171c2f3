"""What a store lost, or never received, and how that is noticed."""

from __future__ import annotations

import pytest

from models.errors import StoreUnavailable
from search.documents.document_table import Changes, Written
from search.documents.store import DocumentStore
from search.engines.embedded.store import EmbeddedStore
from search.protocol import Index
from tests.support.stores.failing_store import FailingStore
from tests.support.stores.several_stores import MANIFEST, NS, a_document, indexed_revisions


@pytest.mark.parametrize("noticed_by", ["the next batch", "settling", "the next run"])
def test_a_store_that_lost_its_index_is_filled_again(
    store: DocumentStore, vectors: FailingStore, noticed_by: str
) -> None:
    store.upsert(NS, [a_document(f"d{number}") for number in range(5)])
    vectors.drop(vectors.documents.index(NS, 30))
    if noticed_by == "the next batch":
        store.upsert(NS, [a_document("d0", revision="2")])
    if noticed_by == "the next run":
        # It creates the namespace before its first batch.
        store.create(NS, MANIFEST)
        assert {*store.unwritten(NS)} == {f"d{number}" for number in range(5)}
    assert store.settle(NS) == {}
    assert indexed_revisions(vectors) == store.revisions(NS)


def test_after_a_partly_failed_drop_indexing_makes_every_store_complete(
    store: DocumentStore, texts: EmbeddedStore, vectors: FailingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: Index) -> None:
        raise StoreUnavailable("away")

    store.upsert(NS, [a_document("a"), a_document("b")])
    with monkeypatch.context() as patched:
        patched.setattr(vectors, "drop", away)
        with pytest.raises(StoreUnavailable):
            store.drop(NS)
    assert not texts.has(texts.documents.index(NS, 30))
    store.create(NS, MANIFEST)
    assert store.settle(NS) == {}
    assert (
        indexed_revisions(texts)
        == indexed_revisions(vectors)
        == store.revisions(NS, "tests")
        == {"a": "1", "b": "1"}
    )


def test_a_batch_writes_what_a_crash_left_unwritten_first(
    store: DocumentStore, texts: EmbeddedStore, vectors: FailingStore
) -> None:
    store.upsert(NS, [a_document("a"), a_document("gone")])
    build = store.known(NS)
    with store.exclusive(NS):
        # The state that a process leaves when it is killed before it writes to the second store.
        lost = store.table.put(build, [a_document("lost")])
        row = store.table.indexes(build)["texts"]
        texts.write(row.index, lost.documents, ())
        store.table.record(build, [Written(row, lost)], stores=store.stores)
        store.table.take_out(build, ["gone"])
    assert indexed_revisions(vectors).keys() == {"a", "gone"}
    assert store.unwritten(NS).keys() == {"lost", "gone"}
    store.upsert(NS, [a_document("b")])
    assert {*vectors.written[-1]} == {"lost", "b"}
    assert indexed_revisions(texts) == indexed_revisions(vectors) == dict.fromkeys(("a", "b", "lost"), "1")
    assert store.unwritten(NS) == {}


def test_what_a_store_refused_of_an_earlier_batch_is_written_by_settling_alone(
    store: DocumentStore, vectors: FailingStore
) -> None:
    store.upsert(NS, [a_document("a"), a_document("b")])
    build = store.known(NS)
    with store.exclusive(NS):
        row = store.table.indexes(build)["vectors"]
        refused = Written(row, Changes(row.sequence, [a_document("a")]), {"a": "too large"})
        store.table.record(build, [refused], stores=store.stores)
    assert store.unwritten(NS) == {"a": "vectors: too large"}
    vectors.written.clear()
    assert store.settle(NS) == {}
    assert vectors.written == [["a"]]
