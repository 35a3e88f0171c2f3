"""Jobs on a terminal, and while the database is away."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
from chorale_client.errors import InvalidJob
from chorale_client.job_lines import JobLine
from chorale_client.lines_read import LinesRead
from rich.console import Console

from cli.jobs import watching
from cli.views.indexing_bar import duration
from jobs import submitting
from jobs.job import COUNTED, Job, JobsUnavailable, NewJob, State
from jobs.submitting import submit_lines


def test_a_duration_has_its_two_largest_units() -> None:
    shown = [duration(seconds) for seconds in (8.4, 125, 11_400, 180_000)]
    assert shown == ["8 s", "2 min 05 s", "3 h 10 min", "2 d 2 h"]


def job(**given: Any) -> Job:
    fields: dict[str, Any] = dict.fromkeys(Job.__dataclass_fields__) | dict.fromkeys(COUNTED, 0)
    fields |= {"job_id": "f5334cde4ddf", "name": "questions.csv", "namespace": "default", "tenant": "default"}
    fields |= {"weight": 1.0, "state": State.RUNNING, "total": 100_000, "created_at_ms": 1_790_000_000_000}
    return Job(**(fields | given))


class Flaky:
    """A store whose database is away at every second call."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._is_away = False

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any, **_: Any) -> Any:
            self._is_away = not self._is_away
            if self._is_away:
                raise JobsUnavailable("locked")
            self.calls.append((name, *given[1:]))
            state = State.RUNNING if len(self.calls) < 3 else State.ENDED
            return job(state=state, complete=len(self.calls))

        return call


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Flaky:
    for module in (submitting, watching):
        monkeypatch.setattr(module.time, "sleep", lambda _: None)
    return Flaky()


def submit(store: Any, lines: Iterator[JobLine]) -> LinesRead:
    read = LinesRead(refuses=True)
    submit_lines(store, NewJob("job", "default"), lines, read, now_ms=lambda: 1)
    return read


def test_a_submission_goes_on_when_the_database_is_back(store: Flaky) -> None:
    read = submit(store, (JobLine(number, str(number), {}, None) for number in range(1, 131)))
    assert (read.lines, read.wrong) == (130, 0)
    assert [name for name, *_ in store.calls] == ["create", "add_all", "begin"]
    assert {number: len(lines) for number, lines in store.calls[1][1].items()} == {0: 64, 1: 64, 2: 2}


def test_after_a_wrong_line_nothing_is_stored_and_control_characters_reach_no_terminal(store: Flaky) -> None:
    lines = (
        JobLine(n, str(n), None if n % 2 else {}, "a \x1b[2J field" if n % 2 else None) for n in range(1, 65)
    )
    with pytest.raises(InvalidJob, match=r"32 of 64 lines are wrong:\n  line 1: a .\[2J field\n  line 3"):
        submit(store, lines)
    assert [name for name, *_ in store.calls] == ["create", "refuse"]


def test_watching_goes_on_when_the_database_is_back(store: Any) -> None:
    said = io.StringIO()
    ended = watching.watch_job(store, "job", Console(file=said, width=100))
    assert ended.state == State.ENDED
    assert said.getvalue() == "running: 1 of 100,000 lines · 1 complete\n"
