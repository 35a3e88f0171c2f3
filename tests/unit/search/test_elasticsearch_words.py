"""The query for a question."""

from __future__ import annotations

from search.engines.elasticsearch.index_layout import Words
from tests.contracts.store_documents import MANIFEST


def test_multi_word_synonyms_do_not_become_phrase_queries() -> None:
    words = Words("english", MANIFEST)
    assert "positions" not in words.mapping["index_options"]
    assert words.query("new york") == {
        "match": {"text": {"query": "new york", "auto_generate_synonyms_phrase_query": False}}
    }
