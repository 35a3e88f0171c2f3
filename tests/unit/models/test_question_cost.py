"""For how many ordinary calls, and lines of a job, questions count."""

from __future__ import annotations

from chorale_client.request import Question

from models.plan import ordinary_calls, ordinary_lines

LONG = Question(text="rent", hypothetical_documents=("x" * 1_600,) * 8)
"""A text costs .001 s and 28 microseconds a character: .001112 s for the question, and 8 * .0458 s for the documents."""


def test_an_ordinary_question_counts_for_one_call_and_one_line() -> None:
    question = Question(text="Who pays for repairs?")
    assert (ordinary_calls([question]), ordinary_lines([question])) == (1, 1.0)


def test_costly_questions_count_for_what_embedding_them_takes() -> None:
    # .367512 s are begun quarters of a second, and lines of .003 s.
    assert ordinary_calls([LONG]) == 2
    assert ordinary_calls([LONG] * 10) == 15
    assert round(ordinary_lines([LONG]), 3) == 122.504


def test_characters_that_no_model_reads_cost_nothing() -> None:
    longer = Question(text="rent", hypothetical_documents=("x" * 8_000,) * 8)
    assert ordinary_lines([longer]) == ordinary_lines([LONG])
