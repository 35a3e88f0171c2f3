"""People see pages of what a namespace holds, and a document as it was split."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from models.errors import UnknownNamespace
from search.documents import browsing
from search.documents.lookups import SqlConnection
from search.documents.reading import Documents
from search.documents.store import DocumentStore
from tests.support.stores.several_stores import NS, a_document


@contextmanager
def reading(url: str) -> Iterator[SqlConnection]:
    with closing(Documents(url)) as documents, documents.reading() as rows:
        yield rows


def page(url: str, after: str = "", **filters: Any) -> tuple[list[str], str | None]:
    """The ids of a page, and its `next`."""
    with reading(url) as rows:
        listing = browsing.namespace(rows, NS, after, filters)
    return [document["document_id"] for document in listing["documents"]], listing["next"]


def test_pages_show_every_document_of_now_once(
    store: DocumentStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browsing, "PAGE", 2)
    store.upsert(NS, [a_document(name, "old") for name in "abcde"])
    store.upsert(NS, [a_document("b", "new", revision="2")])
    store.delete(NS, ["c"])
    assert page(url) == (["a", "b"], "b")
    assert page(url, "b") == (["d", "e"], None)
    with reading(url) as rows, pytest.raises(UnknownNamespace):
        browsing.namespace(rows, "elsewhere", "", {})


def test_a_page_with_filters_reads_a_part_and_says_where_the_next_one_begins(
    store: DocumentStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browsing, "SCANNED", 2)
    store.upsert(NS, [replace(a_document(name), metadata={"team": name}) for name in "abc"])
    assert page(url, team="c") == ([], "b")
    assert page(url, "b", team="c") == (["c"], None)


def test_a_document_has_its_passages_in_order_and_is_returned_only_if_it_meets_the_filters(
    store: DocumentStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browsing, "PAGE", 2)
    store.upsert(NS, [a_document("a", passages=3)])
    with reading(url) as rows:
        first = browsing.document(rows, NS, "a", 0, {"year": 2020})
        rest = browsing.document(rows, NS, "a", 2, {})
        assert browsing.document(rows, NS, "a", 0, {"year": 2021}) is None
        assert browsing.document(rows, NS, "b", 0, {}) is None
    assert first is not None
    assert rest is not None
    assert (first["title"], first["metadata"]) == ("Of a", {"year": 2020, "parts": ["a", None]})
    assert first["passage_count"] == 3
    assert [passage["text"] for passage in first["passages"]] == ["rent 0", "rent 1"]
    place = {"position": 0, "heading": "Part", "start": 3, "end": 7, "pages": ""}
    assert first["passages"][0] == place | {"passage_id": "a#0", "text": "rent 0", "has_vector": True}
    assert [passage["text"] for passage in rest["passages"]] == ["rent 2"]
