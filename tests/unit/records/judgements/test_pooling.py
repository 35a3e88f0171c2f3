"""Which grade a document has after several events; expected values are worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from records.judgements.feedback import Feedback
from records.judgements.pooling import JudgedQuestion, pooled


def said(action: str, document: str | None = "a", grade: int | None = None, **values: Any) -> Feedback:
    usual: dict[str, Any] = {
        "request_id": "r",
        "question": 0,
        "namespace": "docs",
        "configuration": "rrf",
        "text": "why?",
        "text_hash": "h",
        "at_ms": 0,
        "key_id": "k",
        "source": "user",
        "ordinal": None,
    }
    return Feedback(**{**usual, **values}, action_name=action, object_id=document, grade=grade)


def grades(*feedback: Feedback) -> dict[str, int]:
    (question,) = pooled(feedback)
    return dict(question.grades)


@pytest.mark.parametrize(
    ("by_key", "grade"), [([3], 3), ([3, 0, 2], 2), ([3, 1], 1), ([0, 0, 3, 3], 0), ([2, 2, 3, 3], 2)]
)
def test_the_grade_is_the_median_of_all_keys_and_of_two_the_lower(by_key: list[int], grade: int) -> None:
    assert grades(*(said("grade", grade=one, key_id=str(key)) for key, one in enumerate(by_key))) == {
        "a": grade
    }


def test_of_a_key_the_latest_judgement_counts_whether_grade_or_thumb_and_from_whichever_request() -> None:
    assert grades(said("grade", grade=3), said("thumb_down", request_id="other")) == {"a": 0}
    assert grades(said("thumb_down"), said("thumb_up", "b"), said("grade", grade=1)) == {"a": 1, "b": 2}


def test_a_click_is_no_judgement() -> None:
    assert pooled([said("click")]) == []
    assert grades(said("thumb_up"), said("click", "b")) == {"a": 2}


def test_nothing_fits_unless_some_document_has_a_grade_above_zero() -> None:
    nothing = said("nothing_fits", None)
    assert pooled([nothing]) == [JudgedQuestion("docs", "h", "why?", {}, nothing_fits=True)]
    (zero,) = pooled([said("thumb_down"), nothing])
    assert (zero.grades, zero.nothing_fits) == ({"a": 0}, True)
    (some,) = pooled([nothing, said("grade", grade=1, key_id="other")])
    assert (some.grades, some.nothing_fits) == ({"a": 1}, False)


def test_questions_are_parted_by_namespace_and_text_alone() -> None:
    questions = pooled(
        [
            said("thumb_up", request_id="r1", text=None),
            said("thumb_up", "b", request_id="r2", question=4),
            said("thumb_up", namespace="law"),
            said("thumb_up", text_hash="other", text="how?"),
        ]
    )
    assert [(one.namespace, one.text, dict(one.grades)) for one in questions] == [
        ("docs", "why?", {"a": 2, "b": 2}),
        ("law", "why?", {"a": 2}),
        ("docs", "how?", {"a": 2}),
    ]
