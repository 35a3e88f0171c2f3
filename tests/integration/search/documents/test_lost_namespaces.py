"""What a store lost, refused or never received, and how that is noticed."""

from __future__ import annotations

import pytest
from sqlalchemy import delete

from models.errors import StoreUnavailable
from models.store_state_tables import state_table
from search.documents.document_table import StoreResult
from search.documents.store import DocumentStore
from search.embedded.store import EmbeddedStore
from tests.support.stores.failing_store import FailingStore
from tests.support.stores.several_stores import MANIFEST, NS, a_document, shown


def test_a_store_that_lost_its_namespace_is_filled_again(
    store: DocumentStore, vectors: FailingStore
) -> None:
    everything = {f"d{number}": "1" for number in range(5)}
    store.upsert(NS, [a_document(name) for name in everything])
    vectors.drop(NS)
    # A batch notices the loss and is written all the same.
    store.upsert(NS, [a_document("d0", revision="2")])
    assert shown(vectors) == {"d0": "2"}
    for loss in (None, "noticed by the next run", "noticed by settling"):
        if loss:
            vectors.drop(NS)
        if loss == "noticed by the next run":
            # It creates the namespace before its first batch.
            store.create(NS, MANIFEST)
            assert set(store.unwritten(NS)) == set(everything)
        assert store.settle(NS) == {}
        assert shown(vectors) == everything | {"d0": "2"}


def away(namespace: str) -> bool:
    raise StoreUnavailable("away")


def test_after_a_partly_failed_drop_indexing_makes_every_store_complete(
    store: DocumentStore, texts: EmbeddedStore, vectors: FailingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.upsert(NS, [a_document("a"), a_document("b")])
    with monkeypatch.context() as patched:
        patched.setattr(vectors, "drop", away)
        with pytest.raises(StoreUnavailable):
            store.drop(NS)
    assert texts.namespaces() == []
    store.create(NS, MANIFEST)
    assert store.settle(NS) == {}
    assert shown(texts) == shown(vectors) == store.revisions(NS, "tests") == {"a": "1", "b": "1"}


def test_settling_skips_documents_up_to_the_mark(store: DocumentStore) -> None:
    store.upsert(NS, [a_document("a"), a_document("b")])
    store.settle(NS)
    build = store.known(NS)
    with store.exclusive(NS), store.table._database.writing(NS) as connection:
        connection.execute(delete(state_table))
    assert store.table.behind(build, "texts") == {}
    store.upsert(NS, [a_document("c")])
    assert store.table.behind(build, "texts") == {}
    # Until somebody compares the stores.
    with store.exclusive(NS):
        store.table.mark_behind(build, "texts", ["never"])
    assert store.table.behind(build, "texts").keys() == {"a", "b"}
    assert store.table.behind(build, "vectors") == {}
    # Or a store refuses a document that it has accepted before.
    with store.exclusive(NS):
        refused = StoreResult(store.table.changes(build, ["a"]), {"a": "too large"})
        store.table.record(build, {"vectors": refused}, stores=store.stores)
    assert store.table.behind(build, "vectors")["a"] == "too large"


def test_later_batches_do_not_hide_what_a_crash_left_unwritten(
    store: DocumentStore, texts: EmbeddedStore
) -> None:
    store.upsert(NS, [a_document("a")])
    store.settle(NS)
    build = store.known(NS)
    with store.exclusive(NS):
        # The state that a process leaves when it is killed before it writes to a store.
        store.table.put(build, [a_document("lost"), a_document("too")])
    store.upsert(NS, [a_document("b")])
    assert store.table.behind(build, "texts").keys() == {"lost", "too"}
    with store.exclusive(NS):
        # One part of the batch was written, then the process was killed again.
        texts.upsert(NS, [a_document("lost")])
        written = StoreResult(store.table.changes(build, ["lost"]), {})
        store.table.record(build, {"texts": written}, stores=store.stores)
    assert store.table.behind(build, "texts").keys() == {"too"}
    assert store.settle(NS) == {}
    assert shown(texts).keys() == {"a", "b", "lost", "too"}
