"""A question of the demo that no longer shows its point is found out."""

from __future__ import annotations

import pytest

from cli.demo.questions import QUESTIONS, DemoQuestion, Shows, broken_claim

BY_SHOWS = {question.shows: question for question in QUESTIONS}


def complaint(
    question: DemoQuestion, ranks: dict[str, int], *, right: bool = True, cosine: float = 0.5
) -> str | None:
    first = question.expected if right else "python/other"
    return broken_claim(
        question, first=first, ranks=ranks, has_lexical_hits="bm25" in ranks, best_cosine=cosine
    )


@pytest.mark.parametrize(
    ("shows", "kept", "broken"),
    [
        (Shows.ONLY_BM25, {"bm25": 1, "vector": 38}, {"bm25": 1, "vector": 10}),
        (Shows.ONLY_BM25, {"bm25": 1}, {"bm25": 2}),
        (Shows.ONLY_VECTORS, {"vector": 1}, {"bm25": 3, "vector": 1}),
        (Shows.ONLY_VECTORS, {"bm25": 11, "vector": 1}, {"vector": 2}),
        (Shows.FUSION, {"bm25": 2, "vector": 2}, {"bm25": 1, "vector": 2}),
        (Shows.FUSION, {"bm25": 4, "vector": 3}, {"bm25": 2, "vector": 1}),
    ],
)
def test_the_ranks_of_the_branches_must_bear_it_out(
    shows: Shows, kept: dict[str, int], broken: dict[str, int]
) -> None:
    question = BY_SHOWS[shows]
    assert complaint(question, kept) is None
    assert str(question.expected) in str(complaint(question, broken))
    assert complaint(question, kept, right=False) == f"the first hit is python/other, not {question.expected}"


def test_nothing_answers_only_while_scores_are_low_and_no_word_matches() -> None:
    question = BY_SHOWS[Shows.NOTHING]
    assert complaint(question, {}, cosine=0.15) is None
    assert complaint(question, {}, cosine=0.25) == "something answers: lexical hits False, best cosine 0.25"
    assert complaint(question, {"bm25": 1}, cosine=0.15) is not None


def test_there_is_a_question_for_everything_the_demo_shows() -> None:
    assert [question.shows for question in QUESTIONS] == list(Shows)
