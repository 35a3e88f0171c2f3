"""Tuning on the lists of recorded requests."""

from __future__ import annotations

import pytest

from evaluation.tuning.recorded_lists import recorded_lists, tune_recorded
from models.audit_tables import RequestRow
from models.errors import ServiceError
from records.judgements.pooling import JudgedQuestion
from tests.unit.evaluation.recorded import PIPELINE, record


def asked(number: int) -> RequestRow:
    """BM25 alone finds the right document first; both dense branches find another one."""
    wrong = f"wrong {number}"
    row = record({"bm25": (f"right {number}", wrong), "vector": (wrong,), "hyde": (wrong,)}).row
    row.namespace, row.questions[0].text_hash = "docs", f"question {number}"
    return row


def judged(*numbers: int, grade: int = 3) -> dict[tuple[str, str], JudgedQuestion]:
    return {
        ("docs", name): JudgedQuestion("docs", name, name, {f"right {number}": grade}, False)
        for number in numbers
        for name in [f"question {number}"]
    }


def test_the_lists_of_a_judged_question_are_those_that_its_branches_reported() -> None:
    unplanned = asked(1)
    unplanned.plan = None
    rows = [unplanned, asked(1), asked(1), asked(2), asked(3)]
    lists = recorded_lists(rows, PIPELINE, {**judged(1), **judged(2, grade=0)})
    assert [*lists] == [("docs", "question 1")]
    rankings = lists["docs", "question 1"].rankings
    found = {branch: [hit.document_id for hit in ranking.hits] for branch, ranking in rankings.items()}
    assert found == {"bm25": ["right 1", "wrong 1"], "vector": ["wrong 1"], "hyde": ["wrong 1"]}


def test_the_tuned_configuration_follows_the_branch_that_the_judgements_prefer() -> None:
    numbers = range(20)
    tuning = tune_recorded(map(asked, numbers), PIPELINE, judged(*numbers), name="tuned", limit_s=600)
    assert tuning.questions == 20
    # The scores that `complete_scores` needs are not recorded.
    assert not any("scores" in row.name or "complete" in row.name for row in tuning.rows)
    # With the shipped weights the dense branches outvote BM25; BM25 alone puts the right document first.
    assert tuning.row("bm25").mean == 1.0
    assert tuning.row("rrf").mean < 1.0
    assert tuning.row("tuned").mean == 1.0


def test_too_few_questions_and_too_little_time_are_errors_that_say_so() -> None:
    with pytest.raises(ServiceError, match="3 judged questions are too few to learn from; at least 20"):
        tune_recorded(map(asked, range(3)), PIPELINE, judged(*range(3)), name="tuned", limit_s=600)
    with pytest.raises(ServiceError, match="20 questions take longer than 0 s"):
        tune_recorded(map(asked, range(20)), PIPELINE, judged(*range(20)), name="tuned", limit_s=0)
