"""What the demo says of an answer: each caption is worked out from what was found."""

from __future__ import annotations

import json

import pytest

from cli.demo.captions import comparison
from cli.demo.installation import CORPUS
from cli.demo.tour import SCENES

TEXTS = {
    record["id"]: f"{record['title']} {record['text']}".casefold()
    for record in map(json.loads, CORPUS.read_text("utf-8").splitlines())
}


@pytest.mark.parametrize(
    ("ranks", "fused", "caption"),
    [
        ({"bm25": 1, "vector": 6}, 1, "in bm25, not in vector; in the fusion it comes first."),
        ({"bm25": None, "vector": 1}, 1, "in vector, not in bm25; in the fusion it comes first."),
        ({"bm25": 1, "vector": 2}, 3, "in bm25, not in vector; in the fusion it does not come first."),
        ({"bm25": 1, "vector": 1}, 1, "in every search; in the fusion it comes first."),
        ({"bm25": 2, "vector": 3}, 1, "in no search alone; in the fusion it comes first."),
        ({"bm25": 2, "vector": 3}, 2, "in no search alone; in the fusion it does not come first."),
        ({"bm25": None, "vector": None}, None, "in no search alone; in the fusion it does not come first."),
    ],
)
def test_a_caption_names_the_searches_that_put_the_right_text_first(
    ranks: dict[str, int | None], fused: int | None, caption: str
) -> None:
    assert comparison(ranks, fused) == f"The right text comes first {caption}"


def test_the_corpus_is_small_and_holds_what_the_topics_say() -> None:
    topics = {topic: (question.casefold(), expected) for topic, question, expected, _ in SCENES}
    assert 40 <= len(TEXTS) <= 50, "an answer of the tour has at most 50 hits, and so the rank of each text"
    number, expected = topics["A part number"]
    assert [id_ for id_, text in TEXTS.items() if number in text] == [expected]
    paraphrase, expected = topics["Other words than those of the text"]
    assert expected is not None
    assert not set(paraphrase.split()) & set(TEXTS[expected].replace(",", "").replace(".", "").split())
    unknown, _ = topics["A question that the handbook does not answer"]
    assert not any(word in text for word in set(unknown.split()) - {"for"} for text in TEXTS.values())
