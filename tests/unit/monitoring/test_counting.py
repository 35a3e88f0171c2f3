"""What one ended request adds to the metrics."""

from __future__ import annotations

from typing import Any

import pytest

from monitoring.counting import increments
from records.audit.outbox import Ended

BRANCHES = frozenset({"bm25", "vector"})
OK = {"status": "ok", "rankings": []}


def ended(status: str = "complete", by: str = "fusion", took_ms: int = 40, **changes: Any) -> Ended:
    plan = {"searched": [0], "branches": [{"name": "bm25"}, {"name": "vector"}], "cacheable": True}
    stages = [{"stage": "search.bm25", "ms": 12.5, "start_ms": 4}]
    answer = {"status": status, "stages": stages, "degraded": [], **changes.pop("answer", {})}
    fields = {
        "plan": plan,
        "branch_results": {"bm25": OK},
        "request": {"questions": [{"text": "?"}]},
        **changes,
    }
    return Ended("r", 1_000, 1_000 + took_ms, by, answer=answer, **fields)


def counted(one: Ended) -> dict[str, int]:
    return dict(increments(one, BRANCHES))


def test_times_waits_and_missing_parts_are_counted() -> None:
    lacks = [{"where": "search.vector", "reason": "timeout"}, {"where": "rerank", "reason": "budget"}]
    counts = counted(ended("degraded", took_ms=40, answer={"degraded": lacks}))
    assert counts["chorale_request_duration_seconds|degraded|3"] == 1, (
        "0.025 < 0.04 <= 0.05: the fourth bucket"
    )
    assert counts["chorale_request_duration_seconds|degraded|sum_us"] == 40_000
    assert counts["chorale_branch_duration_seconds|bm25|ok|sum_us"] == 12_500
    assert counts["chorale_branch_queue_wait_seconds|bm25|sum_us"] == 4_000
    assert not any("vector" in name and "duration" in name for name in counts), "no worker started it"
    assert counts["chorale_degraded|vector|timeout"] == counts["chorale_degraded|(rerank)|budget"] == 1


@pytest.mark.parametrize(("took_ms", "bucket"), [(0, 0), (5, 0), (6, 1), (60_000, 12), (60_001, 13)])
def test_a_bound_belongs_to_its_bucket_and_the_last_bucket_has_none(took_ms: int, bucket: int) -> None:
    assert f"chorale_request_duration_seconds|complete|{bucket}" in counted(ended(took_ms=took_ms))


@pytest.mark.parametrize(
    ("changes", "label"),
    [
        ({}, "miss"),
        ({"by": "cache", "answer": {"cached": True}, "plan": None}, "hit"),
        ({"by": "leader"}, "in_flight"),
        ({"plan": {"searched": [0], "branches": [], "cacheable": False}}, "bypass"),
        ({"by": "planner", "plan": None}, "unanswered"),
    ],
)
def test_each_question_is_counted_by_where_its_answer_came_from(changes: dict[str, Any], label: str) -> None:
    counts = {name: count for name, count in counted(ended(**changes)).items() if "questions" in name}
    assert counts == {f"chorale_questions|{label}": 1}


def test_no_text_of_a_caller_becomes_a_label() -> None:
    plan = {"searched": [0], "branches": [{"name": "evil|x"}]}
    degraded = [{"where": "search.me", "reason": "because"}, {"where": "a\nb", "reason": "timeout"}]
    stages = [{"stage": "search.evil|x", "ms": 1, "start_ms": 1}]
    evil = ended("mine", plan=plan, answer={"degraded": degraded, "stages": stages})
    labels = {label for name in counted(evil) for label in name.split("|")[1:-1]}
    assert labels <= {"other", "miss", "not_started"}
