"""What the demo says of an answer: each caption is worked out from what was found."""

from __future__ import annotations

import json
from typing import Any

import pytest
from chorale_client.answer import Answer

from cli.demo.captions import best_cosine, comparison, unanswered, without_worker
from cli.demo.installation import CORPUS
from cli.demo.tour import SCENES

TEXTS = {
    record["id"]: f"{record['title']} {record['text']}".casefold()
    for record in map(json.loads, CORPUS.read_text("utf-8").splitlines())
}


def answer(*hits: tuple[str, dict[str, float]], took_ms: float = 12.0) -> Answer:
    """`hits` are ids with the scores by branch."""
    return Answer.model_validate({
        "request_id": "1", "status": "complete", "took_ms": took_ms,
        "questions": [{"status": "complete", "hits": [
            {
                "rank": rank, "document_id": id_, "passage_id": f"{id_}#0", "score": 1.0,
                "branches": {name: _branch(score) for name, score in scores.items()},
            }
            for rank, (id_, scores) in enumerate(hits, start=1)
        ]}],
    })  # fmt: skip


def _branch(score: float) -> dict[str, Any]:
    numbers = {"rank": 1, "score": score, "normalised": 1.0, "weight": 1.0, "contribution": 1.0}
    return {**numbers, "passage_id": "1#0"}


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


def test_of_a_question_without_an_answer_the_caption_has_what_was_found() -> None:
    by_meaning = answer(("tea", {"vector": 0.151}), ("ink", {"vector": 0.12, "hyde": 0.3}))
    assert best_cosine(by_meaning) == 0.151
    assert unanswered(by_meaning, 0.53) == (
        "bm25 finds no word of it; the highest cosine is 0.15, and was 0.53 before."
    )
    by_words = answer(("tea", {"bm25": 3.0}), ("ink", {"bm25": 2.0, "vector": 0.2}))
    assert unanswered(by_words, 0.0).startswith(
        "bm25 finds words of it in 2 texts; the highest cosine is 0.20"
    )


def test_an_answer_without_a_worker_is_compared_with_the_complete_one() -> None:
    complete, same = answer(("tea", {}), ("ink", {})), answer(("tea", {}), took_ms=1_847.2)
    other, none = answer(("ink", {}), took_ms=2_100), answer()
    assert without_worker(same, complete, 2.0) == (
        "answered after 1,847 ms, with a limit of 2,000 ms; its first text is the same as that of the complete answer."
    )
    said = "its first text is not that of the complete answer."
    assert (
        without_worker(other, complete, 2.0) == f"answered after 2,100 ms, with a limit of 2,000 ms; {said}"
    )
    assert without_worker(none, complete, 2.0).endswith(said)


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
