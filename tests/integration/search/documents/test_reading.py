"""What the store of a server reads from the documents' database fits what the store shows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import text

from models.errors import NotEverywhere, StoreTimeout, StoreUnavailable
from search.documents.database import Database
from search.documents.reading import DocumentReader, Documents, FromDocuments
from search.documents.store import DocumentStore, Rebuilding
from search.engines.embedded.store import EmbeddedStore
from tests.support.stores.failing_store import FailingStore
from tests.support.stores.several_stores import MANIFEST, NS, a_document


def texts_of(engine: EmbeddedStore) -> dict[str, str]:
    passages = engine.texts(NS, ["a#0", "a#1", "b#0"], timeout_s=30)
    return {passage_id: passage.text for passage_id, passage in passages.items()}


def test_what_was_replaced_or_deleted_is_read_until_every_store_has_done_so(
    store: DocumentStore, texts: EmbeddedStore, vectors: FailingStore
) -> None:
    store.upsert(NS, [a_document("a", "old", passages=2), a_document("b", "old")])
    vectors.failure = StoreUnavailable("away")
    changes: tuple[Callable[[], object], ...] = (
        lambda: store.upsert(NS, [a_document("a", "new")]),
        lambda: store.delete(NS, ["b"]),
    )
    for change in changes:
        with pytest.raises(NotEverywhere):
            change()
    # Each store has the texts of the passages that it shows.
    assert texts_of(vectors) == {"a#0": "old 0", "a#1": "old 1", "b#0": "old 0"}
    assert texts_of(texts)["a#0"] == "new 0"
    assert vectors.vectors(NS, ["a#1"], timeout_s=30).keys() == {"a#1"}
    vectors.failure = None
    assert store.settle(NS) == {}
    assert texts_of(vectors) == texts_of(texts) == {"a#0": "new 0"}


def test_a_store_that_is_not_rebuilt_yet_has_the_texts_of_the_build_that_it_shows(
    store: DocumentStore, texts: EmbeddedStore, vectors: FailingStore
) -> None:
    store.upsert(NS, [a_document("a", "old", passages=2)])
    vectors.failure = StoreUnavailable("away")
    begun = Rebuilding(store, NS, MANIFEST)
    begun.upsert(NS, [a_document("a", "new")])
    begun.finish()
    assert texts_of(texts) == {"a#0": "new 0"}
    assert texts_of(vectors) == {"a#0": "old 0", "a#1": "old 1"}
    assert [state.passages for state in store.namespaces()] == [1]
    vectors.failure = None
    assert store.settle(NS) == {}
    assert texts_of(vectors) == {"a#0": "new 0"}


def test_a_database_that_does_not_answer_costs_no_more_than_the_time_given(
    store: DocumentStore, url: str
) -> None:
    if url.startswith("sqlite"):
        pytest.skip("readers of SQLite wait for nobody")
    store.upsert(NS, [a_document("a")])
    documents = Documents(url)
    database, reads = Database(url), FromDocuments()
    reads.reader = DocumentReader(documents, "texts")
    assert reads.generation(NS) == 1
    with database.exclusive("other"), database.writing("other") as connection:
        connection.execute(text("LOCK TABLE chorale_namespace"))
        with pytest.raises(StoreTimeout, match="documents' database did not answer within"):
            reads.texts(NS, ["a#0"], timeout_s=0.3)
    assert reads.texts(NS, ["a#0"], timeout_s=30).keys() == {"a#0"}
    documents.close()
    database.close()


def test_namespaces_are_listed_in_pages(store: DocumentStore, url: str) -> None:
    for name in ("c", "a", "b"):
        store.create(name, MANIFEST)
    documents = Documents(url)
    first, second, last = (
        [state.name for state in documents.namespaces(after=after, limit=2)] for after in ("", "b", NS)
    )
    assert (first, second, last) == (["a", "b"], ["c", NS], [])
    assert documents.namespaces(names=[]) == []
    chosen = documents.namespaces(after="a\0", names=["a", "c", "nowhere", "\0"])
    assert [state.name for state in chosen] == ["c"]
    documents.close()
