"""Answers, the audit trail, judged questions and jobs, as a terminal shows them."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chorale_client.answer import BranchScore, Degradation, Hit, Snippet, StageLine
from chorale_client.errors import InvalidJob
from chorale_client.jobs.input_stats import InputStats
from chorale_client.jobs.job_line import JobLine
from rich.console import Console

from cli import progress
from cli.answer_view import highlighted, hits_table, missing_lines, placed_stages
from cli.commands.tune import _file_questions
from cli.jobs import view
from records.jobs.job import COUNTED, Job, JobsUnavailable, NewJob, State
from records.jobs.submitting import submit_lines


def test_branches_that_miss_for_one_reason_share_a_line() -> None:
    reason = {"reason": "not_started", "detail": "no worker took it"}
    missing = [Degradation(where=f"search.{name}", **reason) for name in ("vector", "hyde")]
    lines = missing_lines([*missing, Degradation(where="fetch", reason="a reason of a newer version")])
    assert [line.plain.split(":")[0] for line in lines] == [
        "missing search.vector, search.hyde not_started",
        "missing fetch a reason of a newer version",
    ]


def test_highlights_stay_on_their_words_when_line_breaks_are_removed() -> None:
    text = highlighted(Snippet(text="a\n\nnotice\tperiod", highlights=((3, 9),)))
    assert text.plain == "a  notice period"
    assert [text.plain[span.start : span.end] for span in text.spans] == ["notice"]


def test_a_pinned_hit_has_its_rule_and_no_score_if_no_branch_found_it() -> None:
    found = {
        "bm25": BranchScore(rank=1, score=2.0, passage_id="p", normalised=1, weight=1, contribution=0.01639)
    }
    hit: dict[str, Any] = {"passage_id": "p", "score_kind": "rrf", "pinned": "tele"}
    hits = [
        Hit(rank=1, document_id="a", score=0.0, **hit),
        Hit(rank=2, document_id="b", score=0.01639, branches=found, **hit),
    ]
    console = Console(width=100, color_system=None)
    with console.capture() as capture:
        console.print(hits_table(hits))
    lines = [" ".join(line.split()) for line in capture.get().splitlines() if line.strip()]
    assert lines[1:] == [
        "1 a pinned",
        "pinned by the rule tele",
        "2 b bm25 #1 2.000",
        "pinned by the rule tele rrf 0.01639",
    ]


def test_the_steps_of_a_branch_follow_one_another_from_its_beginning() -> None:
    steps = {"cache": 1.0, "plan": 2.0, "embed": 4.0, "search": 1.5}
    stages = [StageLine(stage=name, ms=ms) for name, ms in steps.items()]
    stages.append(StageLine(stage="search.vector", ms=6.0, start_ms=10.0))
    stages.append(StageLine(stage="fuse", ms=1.0, start_ms=16.0))
    assert [(stage.stage, at, is_step) for stage, at, is_step in placed_stages(stages)] == [
        ("cache", 0.0, False),
        ("plan", 1.0, False),
        ("search.vector", 10.0, False),
        ("embed", 10.0, True),
        ("search", 14.0, True),
        ("fuse", 16.0, False),
    ]


def test_questions_that_nothing_answers_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "golden.jsonl"
    file.write_text(
        '{"question": "one?", "expected": "d1", "namespace": "law"}\n'
        '{"question": "nothing?", "expected": []}\n'
        '{"question": "two?", "expected": {"d2": 2}, "filters": {"year": 2024}}\n'
    )
    label, questions, graded = _file_questions(file, "docs", None)
    assert label == "golden"
    assert [(one.question_id, one.text, one.namespace, one.filters) for one in questions] == [
        ("line 1", "one?", "law", {}),
        ("line 3", "two?", "docs", {"year": 2024}),
    ]
    assert graded == {"line 1": {"d1": 1}, "line 3": {"d2": 2}}


def job(**changes: Any) -> Job:
    fields: dict[str, Any] = dict.fromkeys(Job.__dataclass_fields__) | dict.fromkeys(COUNTED, 0)
    fields |= {"job_id": "f5334cde4ddf", "name": "questions.csv", "namespace": "default", "tenant": "default"}
    fields |= {"weight": 1.0, "state": State.RUNNING, "total": 100_000, "created_at_ms": 1_790_000_000_000}
    return Job(**(fields | changes))


class Flaky:
    """A store whose database is away at every second call."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._is_away = False

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **_: Any) -> Any:
            self._is_away = not self._is_away
            if self._is_away:
                raise JobsUnavailable("locked")
            self.calls.append((name, *arguments[1:]))
            state = State.RUNNING if len(self.calls) < 3 else State.ENDED
            return job(state=state, complete=len(self.calls))

        return call


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Flaky:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    return Flaky()


def submit(store: Any, lines: Iterator[JobLine]) -> InputStats:
    read = InputStats(refuses=True)
    submit_lines(store, NewJob("job", "default"), lines, read, now_ms=lambda: 1)
    return read


def test_a_submission_goes_on_when_the_database_is_back(store: Flaky) -> None:
    read = submit(store, (JobLine(number, str(number), {}, None) for number in range(1, 131)))
    assert (read.lines, read.wrong) == (130, 0)
    assert [name for name, *_ in store.calls] == ["create", "add", "begin"]
    assert {number: len(lines) for number, lines in store.calls[1][1].items()} == {0: 64, 1: 64, 2: 2}


def test_after_a_wrong_line_nothing_is_stored_and_control_characters_reach_no_terminal(store: Flaky) -> None:
    lines = (
        JobLine(n, str(n), None if n % 2 else {}, "a \x1b[2J field" if n % 2 else None) for n in range(1, 65)
    )
    with pytest.raises(
        InvalidJob, match=r"32 of 64 lines are wrong:\n  lines 1, 3, .*, 39: a .\[2J field\n  and 12 more"
    ):
        submit(store, lines)
    assert [name for name, *_ in store.calls] == ["create", "refuse"]


def test_watching_goes_on_when_the_database_is_back(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)
    printed = io.StringIO()
    ended = view.watch_job(store, "job", Console(file=printed, width=100))
    assert ended.state == State.ENDED
    assert printed.getvalue() == "running: 1 of 100,000, 1 complete\nrunning: 2 of 100,000, 2 complete\n"
