"""Grades of a language model: what it is asked, which grade its answer has, what people check, and how well both agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from models.errors import Declined, StageFailure
from records.judgements.feedback import Feedback
from records.judgements.language_model import Agreement, agreement, ask_grades, to_check
from records.judgements.pooling import pooled


class Chat:
    """Answers each prompt with the next text."""

    def __init__(self, *answers: str | StageFailure) -> None:
        self.answers = list(answers)
        self.prompts: list[str] = []

    def complete(self, prompts: Sequence[str], *, timeout_s: float) -> list[str | StageFailure]:
        self.prompts += prompts
        return [self.answers.pop(0) for _ in prompts]


def graded(document: str, grade: int, *, by: str = "llm", text_hash: str = "h") -> Feedback:
    values: dict[str, Any] = {"request_id": "r", "question": 0, "namespace": "docs", "configuration": "rrf"}
    values |= {"text": "why?", "text_hash": text_hash, "at_ms": 0, "ordinal": None}
    source: Any = "llm" if by == "llm" else "judge"
    return Feedback(**values, key_id=by, source=source, action_name="grade", object_id=document, grade=grade)


def test_the_model_reads_question_and_passage_as_they_are_and_no_more_than_4_000_characters_of_it() -> None:
    chat = Chat("2")
    assert ask_grades(chat, [("who pays {passage}?", "x{question}" + "y" * 4_000)], timeout_s=1) == [2]
    (prompt,) = chat.prompts
    assert "Question: who pays {passage}?\n" in prompt
    assert prompt.endswith("Passage: x{question}" + "y" * (4_000 - len("x{question}")) + "\n\nGrade:")


@pytest.mark.parametrize(
    ("answer", "grade"),
    [
        ("3", 3),
        ("**1**", 1),
        ("Grade: 0.", 0),
        ("It names 2 parties and answers, so 3", 3),
        ("##final score: 2##", 2),
    ],
)
def test_the_last_number_from_0_to_3_is_the_grade(answer: str, grade: int) -> None:
    assert ask_grades(Chat(answer), [("why?", "because")], timeout_s=1) == [grade]


@pytest.mark.parametrize("answer", ["perfect", "4", "10", "2.5", "-1", "v3"])
def test_an_answer_without_a_grade_is_a_failure(answer: str) -> None:
    (failure,) = ask_grades(Chat(answer), [("why?", "because")], timeout_s=1)
    assert isinstance(failure, StageFailure)
    assert (failure.reason, failure.detail) == ("invalid_answer", "no grade from 0 to 3")


def test_a_failure_of_the_model_is_passed_on() -> None:
    refused = Declined("the question was declined")
    assert ask_grades(Chat(refused, "1"), [("why?", "a"), ("why?", "b")], timeout_s=1) == [refused, 1]


def test_grades_of_a_model_and_of_people_are_never_pooled_together() -> None:
    feedback = [graded("a", 3), graded("a", 0, by="anna"), graded("b", 2)]
    (people,), (model,) = pooled(feedback), pooled(feedback, by_llm=True)
    assert (people.grades, model.grades) == ({"a": 0}, {"a": 3, "b": 2})


def test_people_check_so_many_hits_of_each_grade_that_nobody_judged() -> None:
    feedback = [graded(f"{grade}-{at}", grade) for grade in (0, 3) for at in range(5)]
    feedback.append(graded("1-0", 1))
    feedback.append(graded("3-4", 2, by="anna"))
    chosen = [item.object_id or "" for item in to_check(feedback, per_grade=2)]
    assert sorted(name[0] for name in chosen) == ["0", "0", "1", "3", "3"]
    assert "3-4" not in chosen
    assert chosen == [item.object_id for item in to_check(feedback[::-1], per_grade=2)]


def test_the_agreement_is_kappa_weighted_by_the_square_of_the_difference() -> None:
    model = [graded("a", 0), graded("b", 3), graded("c", 1), graded("alone", 2)]
    people = [graded("a", 0, by="anna"), graded("b", 3, by="anna"), graded("c", 2, by="anna")]
    # Seen: (1 - 2)² = 1.  By chance, mean over all nine pairs times three: people 0, 3, 2 with the model's 0, 3, 1 differ by
    # 0 + 9 + 1, 9 + 0 + 4 and 4 + 1 + 1, together 29; a third of it is 29 / 3.
    agreed = agreement([*model, *people])
    assert (agreed.hits, agreed.equal) == (3, 2)
    assert agreed.kappa == pytest.approx(1 - 1 / (29 / 3))
    assert agreement(model) == Agreement(0, 0, None)
    assert agreement([graded("a", 1), graded("a", 1, by="anna")]) == Agreement(1, 1, None)
