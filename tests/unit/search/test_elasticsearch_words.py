"""What a question asks Elasticsearch for."""

from __future__ import annotations

from search.elasticsearch.analysis import Words
from tests.contracts.store_documents import MANIFEST


def test_synonyms_of_several_words_ask_for_no_phrase_which_a_field_without_positions_cannot_answer() -> None:
    words = Words("english", MANIFEST)
    assert "positions" not in words.mapping["index_options"]
    assert words.asked("new york") == {
        "match": {"text": {"query": "new york", "auto_generate_synonyms_phrase_query": False}}
    }
