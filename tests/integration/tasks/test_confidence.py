"""The confidence of an answer, and abstention, through the pipeline."""

from __future__ import annotations

from typing import Any

from tests.support.pipelines.one_process import OneProcess

ANSWERED, UNANSWERED = "When must a tenant give notice?", "Which planet has the most moons?"
ASKED: dict[str, Any] = {"namespace": "trust", "timeout_s": 20}


def test_a_question_that_nothing_answers_is_abstained_and_keeps_its_hits(here: OneProcess) -> None:
    here.index(namespace="trust")
    answer = here.ask([ANSWERED, UNANSWERED], abstain=0.5, **ASKED)
    good, bad = answer.questions
    assert (answer.status, good.abstained, bad.abstained) == ("complete", False, True)
    assert good.confidence is not None
    assert bad.confidence is not None
    assert bad.confidence < 0.2 < 0.8 < good.confidence
    assert good.hits[0].document_id == "notice"
    assert (len(bad.hits), answer.warnings) == (5, ())

    # Without the option the answer says the same, and nothing is abstained.
    page = here.ask(UNANSWERED, **ASKED).questions[0]
    assert (page.confidence, page.abstained, page.signals) == (bad.confidence, False, {})
