"""What Elasticsearch answers beside the embedded store, and a document with thousands of passages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from search.elasticsearch.store import ElasticsearchStore
from search.embedded.store import EmbeddedStore
from search.protocol import Search
from tests.contracts.store_documents import EAST, MANIFEST, document, questions
from tests.support.servers.elasticsearch_server import corner, opened
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
    embedded = EmbeddedStore(tmp_path / "corpus")
    texts = [text.split("\n")[0] for text in passages[::40]]
    texts += ["the quick fox", "return return value", "über"]
    for language in ("en", "it", "none"):
        manifest = replace(MANIFEST, language=language)
        rankings = []
        for one in (embedded, store):
            one.create(f"like-{language}", manifest)
            one.upsert(f"like-{language}", held)
            rankings.append(one.search_text(f"like-{language}", texts, Search(depth=50, timeout_s=30)))
        for ours, theirs in zip(*rankings, strict=True):
            assert [hit.passage_id for hit in theirs.hits][:20] == [hit.passage_id for hit in ours.hits][:20]
            scores = [hit.score for hit in ours.hits]
            assert [hit.score for hit in theirs.hits] == pytest.approx(scores, rel=1e-4)
        assert sum(len(ranking.hits) for ranking in rankings[0]) > 500
    embedded.close()


def test_a_document_with_thousands_of_passages_leaves_room_for_others(store: ElasticsearchStore) -> None:
    store.create("book", MANIFEST)
    store.upsert("book", [document("book", *["pear"] * 2_500)])
    store.upsert("book", [document(f"d{n:02}", "pear with some other words") for n in range(20)])
    (text,) = store.search_text("book", ["pear"], Search(depth=20, timeout_s=30))
    (near,) = store.search_vectors("book", questions(EAST), Search(depth=20, timeout_s=30))
    for ranking in (text, near):
        assert len({hit.document_id for hit in ranking.hits}) == 20
    assert [hit.document_id for hit in text.hits][-19:] == [f"d{n:02}" for n in range(19)]
