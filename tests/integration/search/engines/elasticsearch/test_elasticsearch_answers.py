"""What Elasticsearch answers beside the embedded store, and a document with thousands of passages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from search.engines.elasticsearch.store import ElasticsearchStore
from search.protocol import Search
from tests.contracts.store_documents import EAST, document, questions
from tests.support.servers.elasticsearch_server import corner, opened
from tests.support.stores.known_index import KnownIndexes, index_of
from tests.support.stores.one_engine import embedded_store
from tests.support.stores.passages import standard_library_passages


@pytest.fixture(scope="module")
def store() -> Iterator[ElasticsearchStore]:
    with corner() as prefix, opened(prefix, vectors=True) as store:
        yield store


def test_texts_have_the_scores_of_the_embedded_store(store: ElasticsearchStore, tmp_path: Path) -> None:
    passages = standard_library_passages(600)
    held = [
        document(f"d{n:03}", *passages[2 * n : 2 * n + 2], title=passages[2 * n].split("\n")[0][:60])
        for n in range(300)
    ]
    embedded = embedded_store(tmp_path / "corpus")
    texts = [text.split("\n")[0] for text in passages[::40]]
    texts += ["the quick fox", "return return value", "über"]
    for language in ("en", "it", "none"):
        name = f"like-{language}"
        index = index_of(name, language=language)
        assert isinstance(store.reader, KnownIndexes)
        store.reader.indexes[name] = index
        embedded.create(name, index.manifest)
        embedded.upsert(name, held)
        store.create(index)
        store.write(index, held, ())
        rankings = [
            either.search_text(name, texts, Search(depth=50, timeout_s=30)) for either in (embedded, store)
        ]
        for ours, theirs in zip(*rankings, strict=True):
            assert [hit.passage_id for hit in theirs.hits][:20] == [hit.passage_id for hit in ours.hits][:20]
            scores = [hit.score for hit in ours.hits]
            assert [hit.score for hit in theirs.hits] == pytest.approx(scores, rel=1e-4)
        assert sum(len(ranking.hits) for ranking in rankings[0]) > 500
    embedded.close()


def test_a_document_with_thousands_of_passages_leaves_room_for_others(store: ElasticsearchStore) -> None:
    store.create(index_of("book"))
    store.write(index_of("book"), [document("book", *["pear"] * 2_500)], ())
    store.write(index_of("book"), [document(f"d{n:02}", "pear with some other words") for n in range(20)], ())
    (text,) = store.search_text("book", ["pear"], Search(depth=20, timeout_s=30))
    (near,) = store.search_vectors("book", questions(EAST), Search(depth=20, timeout_s=30))
    for ranking in (text, near):
        assert len({hit.document_id for hit in ranking.hits}) == 20
    assert [hit.document_id for hit in text.hits][-19:] == [f"d{n:02}" for n in range(19)]
