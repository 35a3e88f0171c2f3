"""Files of judgements: what is written, and that what reads it reads the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evaluation.judged.golden import read_golden
from records.judgements.feedback import Feedback
from records.judgements.files import WrongJudgements, golden_entry, qrels_lines, read_judgements, ubi_event
from records.judgements.pooling import JudgedQuestion
from tests.unit.records.judgements.test_pooling import said


def judged(
    grades: dict[str, int], *, nothing_fits: bool = False, text: str | None = "why?"
) -> JudgedQuestion:
    return JudgedQuestion("docs", "h", text, grades, nothing_fits)


def test_a_golden_line_has_the_grades_above_zero_and_says_that_nothing_answers(tmp_path: Path) -> None:
    questions = [judged({"a b": 3, "c": 0, "d": 1}), judged({"c": 0}, nothing_fits=True, text="how?")]
    file = tmp_path / "judged.jsonl"
    file.write_text("".join(f"{json.dumps(golden_entry(question))}\n" for question in questions))
    read = [(line.text, dict(line.expected), line.namespace) for line in read_golden(file)]
    assert read == [("why?", {"a b": 3, "d": 1}, "docs"), ("how?", {}, "docs")]


def test_no_golden_line_claims_that_nothing_answers_because_the_judged_documents_do_not() -> None:
    assert golden_entry(judged({"c": 0})) is None
    assert golden_entry(judged({"a": 2}, text=None)) is None


def test_qrels_keep_grade_zero_and_ids_with_spaces_and_are_read_back(tmp_path: Path) -> None:
    lines = list(qrels_lines(judged({"a b": 3, "c": 0})))
    assert lines == ["h\t0\ta b\t3", "h\t0\tc\t0"]
    file = tmp_path / "judged.qrels"
    file.write_text("\n".join([*lines, "", "t.acme.r  0 d\t2".replace("\t", " ")]))
    read = [
        (one.line, one.event.request_id, one.event.document_id, one.event.grade)
        for one in read_judgements(file)
    ]
    assert read == [(1, "h", "a b", 3), (2, "h", "c", 0), (4, "t.acme.r", "d", 2)]


@pytest.mark.parametrize(
    "event",
    [
        said("grade", grade=3, question=2, ordinal=4, at_ms=1_790_000_000_123),
        said("click", ordinal=1, at_ms=1_790_000_000_123),
        said("nothing_fits", None, at_ms=1_790_000_000_123),
    ],
)
def test_an_event_has_ubi_s_names_and_is_read_back(tmp_path: Path, event: Feedback) -> None:
    wire = ubi_event(event)
    assert (wire["query_id"], wire["client_id"], wire["action_name"]) == ("r", "k", event.action_name)
    # 1,790,000,000 s after 1970 by `date -u -d @1790000000`.
    assert wire["timestamp"] == "2026-09-21T14:13:20.123+00:00"
    attributes = wire["event_attributes"]
    assert attributes.get("object", {}).get("object_id") == event.object_id
    assert attributes.get("position", {}).get("ordinal") == event.ordinal
    file = tmp_path / "events.jsonl"
    file.write_text(json.dumps(wire))
    (line,) = read_judgements(file)
    assert (line.at_ms, line.judge) == (event.at_ms, "k")
    read = line.event
    assert (read.request_id, read.question, read.action) == ("r", event.question, event.action_name)
    assert (read.document_id, read.grade, read.rank) == (event.object_id, event.grade, event.ordinal)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "a.qrels",
            "h 0 a 1\nh 0 b",
            "line 2: not `topic 0 document grade`, with a grade from 0 to 3: 'h 0 b'",
        ),
        ("a.qrels", "h 0 a -1", "line 1: not `topic 0 document grade`"),
        ("a.qrels", "h 0 a 4", "line 1, grade: Input should be less than or equal to 3"),
        ("a.jsonl", "[]", "line 1: not an object with `query_id` or `request_id`"),
        ("a.jsonl", "{", "line 1: "),
        (
            "a.jsonl",
            '{"request_id": "r", "action": "like", "document_id": "a"}',
            "line 1, action: Input should be 'click'",
        ),
        (
            "a.jsonl",
            '{"request_id": "r", "action": "click", "document_id": "a", "timestamp": "x"}',
            "line 1: Invalid isoformat",
        ),
    ],
)
def test_a_wrong_line_is_named_with_its_field(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(WrongJudgements) as error:
        list(read_judgements(tmp_path / name))
    assert message in str(error.value)
