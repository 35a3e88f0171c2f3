"""`chorale jobs` as a person calls it, with results written through the store."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from audit.schema import upgrade
from cli.jobs import watching
from cli.jobs.writing import replaced
from jobs.job import Outcome, State
from jobs.store import Jobs
from tests.support.command_line import Called, Run, command
from tests.support.jobs import answered, ended, lines, result, submitted, taken
from tests.support.servers.services import need
from tests.support.waiting import until


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Jobs]:
    """The store of jobs of the home of `alone`."""
    (tmp_path / "home").mkdir()
    url = f"sqlite:///{tmp_path}/home/audit.db"
    upgrade(url)
    opened = Jobs(url)
    yield opened
    opened.close()


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    file = tmp_path / "questions.csv"
    rows = [("id", "text", "top_k"), *((f"q{number}", f"what is {number}?", 3) for number in range(100))]
    with file.open("w") as stream:
        csv.writer(stream).writerows(rows)
    return file


def told(called: Called, code: int = 0) -> dict[str, Any]:
    """The JSON document of a command that ended with this code."""
    assert called.returncode == code, called.stdout + called.stderr
    found: dict[str, Any] = json.loads(called.stdout)
    return found


def test_a_file_is_submitted_where_nothing_runs_and_waits(alone: Run, store: Jobs, questions: Path) -> None:
    called = alone(
        "jobs", "submit", str(questions), "-n", "law", "--tenant", "acme", "--deadline", "2h", "-k", "7"
    )
    assert called.returncode == 0, called.stderr
    job = store.get(called.stdout.strip())
    assert (job.state, job.total, job.name, job.tenant) == (State.QUEUED, 100, "questions.csv", "acme")
    assert job.deadline_at_ms is not None
    assert 7_190_000 < job.deadline_at_ms - job.created_at_ms <= 7_200_000
    assert "nothing runs here; the job waits for `chorale up`" in called.stderr
    assert f"100 lines submitted; `chorale jobs show {job.job_id} --watch` watches" in called.stderr.replace(
        "\n", " "
    )
    # The line's own option goes before the default.
    segment = taken(store, job.job_id)
    assert segment.lines[0].fields == {"top_k": 3, "questions": [{"text": "what is 0?"}]}


def test_options_are_the_defaults_of_every_line(alone: Run, store: Jobs, tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text('{"text": "bread?"}\n\n{"id": "b", "text": "butter?", "depth": 20}\n')
    given = ("--include", "ids", "--depth", "30", "--options", '{"cache": "bypass", "depth": 40}')
    job = told(alone("jobs", "submit", str(file), *given, "--json"))
    one, other = taken(store, job["job_id"]).lines
    assert (one.id, one.fields) == (
        *("1",),
        {"include": ["ids"], "depth": 30, "cache": "bypass", "questions": [{"text": "bread?"}]},
    )
    assert (other.number, other.id, (other.fields or {})["depth"]) == (3, "b", 20)


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    """25 wrong lines of 100."""
    file = tmp_path / "wrong.jsonl"
    texts = [json.dumps({"id": f"q{n}", "text": "" if n % 4 == 0 else "what?"}) for n in range(1, 101)]
    file.write_text("\n".join(texts))
    return file


def test_a_file_with_wrong_lines_is_refused_and_they_are_named(alone: Run, store: Jobs, wrong: Path) -> None:
    called = alone("jobs", "submit", str(wrong))
    assert (called.returncode, called.stdout) == (2, "")
    assert "25 of 100 lines are wrong:\n  line 4: text: empty\n  line 8:" in called.stderr
    assert called.stderr.count("line ") == 20
    assert "and 5 more" in called.stderr
    (job,) = store.last(10)
    assert (job.state, job.outcome, job.total) == (State.ENDED, Outcome.FAILED, 0)
    assert "25 of 100 lines are wrong" in job.reason


def test_wrong_lines_are_skipped_on_request_and_are_in_the_results(
    alone: Run, store: Jobs, wrong: Path
) -> None:
    called = alone("jobs", "submit", str(wrong), "--on-error", "skip")
    assert called.returncode == 0
    assert "25 of 100 lines are wrong:\n  line 4: text: empty\n" in called.stderr
    job = ended(store, called.stdout.strip())
    assert (store.get(job).refused, store.get(job).complete) == (25, 75)
    found = [json.loads(line) for line in alone("jobs", "results", job).stdout.splitlines()]
    assert [line["line"] for line in found] == [*range(1, 101)]
    assert [line["line"] for line in found if line["status"] == "refused"] == [*range(4, 101, 4)]
    assert found[3]["error"] == "text: empty"


def test_a_job_is_submitted_from_a_pipe(alone: Run, store: Jobs) -> None:
    job = told(alone("jobs", "submit", "-", "--json", stdin='{"text": "bread?"}\n'))
    assert (job["state"], job["total"], job["name"]) == ("queued", 1, "")


def test_an_interrupted_submission_leaves_no_job_behind(store: Jobs, tmp_path: Path) -> None:
    given = command("jobs", "submit", "-", CHORALE_HOME=str(tmp_path / "home"))
    with subprocess.Popen(
        **{**given, "stdin": subprocess.PIPE}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write('{"text": "bread?"}\n' * 3_000)
        process.stdin.flush()
        until(lambda: any(job.total for job in store.last(1)))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    (job,) = store.last(10)
    assert (job.state, job.outcome, job.reason) == (
        State.ENDED,
        Outcome.FAILED,
        "the submission was interrupted",
    )


def test_jobs_are_listed_and_shown_by_the_beginning_of_their_ids(alone: Run, store: Jobs) -> None:
    ended(store, submitted(store, "f5334cde-1", [lines(4)], name="nightly"), {2: result("degraded")})
    running = submitted(store, "0a1b2c3d-2", [lines(2), lines(2, first=3)], now_ms=2, weight=2.0)
    answered(store, running, segments=1)
    store.note_rate(running, 0.5)
    first, second = told(alone("jobs", "list", "--json"))["jobs"]
    assert (first["job_id"], first["counts"]["complete"], first["eta_s"]) == (running, 2, 4.0)
    assert (second["job_id"], second["outcome"]) == ("f5334cde-1", "completed")
    head, one, other = alone("jobs", "list").stdout.splitlines()
    assert head.split() == ["id", "submitted", "(UTC)", "namespace", "lines", "done", "name"]
    assert one.split() == ["0a1b2c3d", "1970-01-01", "00:00:00", "default", "running", "4", "50%"]
    assert other.split()[-4:] == ["completed", "4", "100%", "nightly"]

    assert told(alone("jobs", "show", "f533", "--json"))["counts"]["degraded"] == 1
    shown = {line.split()[0]: line.split()[1:] for line in alone("jobs", "show", "0a1b").stdout.splitlines()}
    assert shown["tenant"] == ["default", "·", "weight", "2"]
    assert (shown["pending"], shown["complete"], shown["rate"]) == (
        ["2"],
        ["2"],
        ["0", "lines/s", "·", "4", "s", "left"],
    )
    unknown = alone("jobs", "show", "nobody")
    assert (unknown.returncode, unknown.stderr) == (
        1,
        "chorale: no job 'nobody'; `chorale jobs list` shows the jobs\n",
    )


@pytest.mark.parametrize(
    ("by_line", "outcome", "code"),
    [
        ({}, Outcome.COMPLETED, 0),
        ({1: result("degraded")}, Outcome.COMPLETED, 3),
        ({1: result("failed"), 2: result("degraded")}, Outcome.COMPLETED, 8),
        ({1: result("failed"), 2: result("failed")}, Outcome.FAILED, 4),
        (None, Outcome.EXPIRED, 8),
        (None, Outcome.CANCELLED, 6),
    ],
)
def test_watching_ends_with_the_job_and_its_exit_code(
    alone: Run,
    store: Jobs,
    monkeypatch: pytest.MonkeyPatch,
    by_line: dict[int, Any] | None,
    outcome: Outcome,
    code: int,
) -> None:
    job = submitted(store, "job", [lines(2)])

    def work(_: float) -> None:
        """Ends the job while the command sleeps between two looks."""
        if by_line is not None:
            answered(store, job, by_line)
        store.end(job, outcome, now_ms=100)

    monkeypatch.setattr(watching, "time", SimpleNamespace(monotonic=time.monotonic, sleep=work))
    called = alone("jobs", "show", "job", "--watch", "--json")
    assert told(called, code)["outcome"] == outcome
    assert "queued: 0 of 2 lines" in called.stderr


def test_a_job_is_paused_resumed_cancelled_and_retried(alone: Run, store: Jobs) -> None:
    job = submitted(store, "job", [lines(2), lines(2, first=3)])
    answered(store, job, {1: result("failed")}, segments=1)
    assert told(alone("jobs", "pause", "job", "--json"))["state"] == "paused"
    assert alone("jobs", "resume", "job").stdout == "job: goes on\n"
    assert told(alone("jobs", "cancel", "job", "--json"))["state"] == "cancelling"
    store.end(job, Outcome.CANCELLED, now_ms=5)
    again = alone("jobs", "cancel", "job")
    assert (again.returncode, "job 'job' is ended" in again.stderr) == (1, True)
    found = told(
        alone("jobs", "retry", "job", "--only", "failed", "--only", "expired", "--deadline", "1h", "--json")
    )
    assert (found["lines"], store.get(job).state) == (3, State.QUEUED)
    wrong = alone("jobs", "retry", "job", "--only", "complete")
    assert (wrong.returncode, "'complete' is none of failed, expired, degraded" in wrong.stderr) == (2, True)


def test_results_of_a_running_job_end_with_the_cursor_from_which_to_go_on(alone: Run, store: Jobs) -> None:
    job = submitted(store, "job", [lines(2), lines(2, first=3)])
    answered(store, job, segments=1)
    called = alone("jobs", "results", "job")
    assert called.returncode == 8
    assert [json.loads(line)["id"] for line in called.stdout.splitlines()] == ["q1", "q2"]
    assert (
        called.stderr == "2 of 4 lines have no result yet; go on with `chorale jobs results job --after 2`\n"
    )
    ended(store, job)
    rest = alone("jobs", "results", "job", "--after", "2")
    assert (rest.returncode, rest.stderr) == (0, "")
    assert [json.loads(line)["id"] for line in rest.stdout.splitlines()] == ["q3", "q4"]


def test_results_are_written_in_the_format_of_the_file_s_name(
    alone: Run, store: Jobs, tmp_path: Path
) -> None:
    ended(store, submitted(store, "job", [lines(3)]), {2: result("failed")})
    for name in ("answers.csv", "answers.trec", "answers.jsonl"):
        assert alone("jobs", "results", "job", "--output", str(tmp_path / name)).returncode == 0
    with (tmp_path / "answers.csv").open() as stream:
        assert [row["document_id"] for row in csv.DictReader(stream)] == ["d1", "", "d1"]
    assert (tmp_path / "answers.trec").read_text().splitlines()[0].split() == [
        "q1",
        "Q0",
        "d1",
        "1",
        "0.5",
        "chorale",
    ]
    assert len((tmp_path / "answers.jsonl").read_text().splitlines()) == 3
    written = (tmp_path / "answers.csv").read_bytes().decode()
    assert alone("jobs", "results", "job", "--format", "csv").stdout == written
    refused = alone("jobs", "results", "job", "--format", "parquet")
    assert (refused.returncode, "--output" in refused.stderr) == (2, True)


def test_a_file_stays_as_it_is_until_all_results_are_written(tmp_path: Path) -> None:
    kept = tmp_path / "answers.jsonl"
    kept.write_text("earlier")
    with pytest.raises(TypeError), replaced(kept) as stream:
        stream.writelines([b"half", None])  # type: ignore[list-item]
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("answers.jsonl", "earlier")]


def test_old_jobs_are_deleted_once_that_is_confirmed(alone: Run, store: Jobs) -> None:
    ended(store, submitted(store, "old", [lines(1)]))
    submitted(store, "waiting", [lines(1)])
    asked = alone("jobs", "prune", "--older-than", "30d")
    assert (asked.returncode, "this deletes 1 job: add --yes" in asked.stderr) == (2, True)
    assert told(alone("jobs", "prune", "--older-than", "30d", "--yes", "--json"))["removed"] == 1
    assert [job.job_id for job in store.last(10)] == ["waiting"]


def test_two_ended_jobs_are_compared(alone: Run, store: Jobs) -> None:
    ended(store, submitted(store, "before", [lines(3)]), {1: result("degraded")})
    other = result(hits=[{"rank": 1, "document_id": "d2", "score": 0.5}])
    ended(store, submitted(store, "after", [lines(3, first=2)]), {2: other})
    found = told(alone("jobs", "compare", "bef", "aft", "--json"))
    assert found == {
        "v": 1,
        "jobs": ["before", "after"],
        "lines": 2,
        "questions": 2,
        "equal_top_hits": 0.5,
        "overlap_at_10": 0.5,
        "unanswered": [0, 0],
        "degraded": [{"vector unavailable": 1}, {}],
        "only_in": [1, 1],
    }
    shown = alone("jobs", "compare", "before", "after").stdout
    assert "2 questions of 2 lines compared: 50.0% have the same top hit, overlap@10 is 0.500" in shown
    assert ["missing", "vector", "unavailable", "1", "0"] in [line.split() for line in shown.splitlines()]
    submitted(store, "running", [lines(3)])
    refused = alone("jobs", "compare", "before", "running")
    assert (refused.returncode, "only ended jobs are compared" in refused.stderr) == (1, True)


def test_without_any_job_the_answer_is_one_sentence_and_no_file_is_made(alone: Run, tmp_path: Path) -> None:
    assert told(alone("jobs", "list", "--json"))["jobs"] == []
    said = "there are no jobs yet: `chorale jobs submit FILE` makes one"
    assert alone("jobs", "list").stdout.strip() == said
    shown = alone("jobs", "show", "any")
    assert (shown.returncode, shown.stderr) == (1, f"chorale: {said}\n")
    assert not (tmp_path / "home" / "audit.db").exists()


@pytest.mark.parametrize("arguments", [("submit", "{file}"), ("list",)], ids=["submit", "list"])
def test_a_database_that_cannot_be_used_is_answered_with_one_sentence(
    alone: Run, questions: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    damaged = tmp_path / "damaged.db"
    damaged.write_text("this is no database")
    words = (word.replace("{file}", str(questions)) for word in arguments)
    called = alone("jobs", *words, CHORALE_AUDIT_URL=f"sqlite:///{damaged}")
    assert (called.returncode, called.stdout) == (1, "")
    assert called.stderr.startswith("chorale: the database of the jobs cannot be used: ")
    assert called.stderr.endswith("file is not a database\n")


def test_on_a_running_pipeline_an_unknown_namespace_is_named(chorale: Run, questions: Path) -> None:
    called = chorale("jobs", "submit", str(questions), "-n", "nosuch", "--watch")
    assert called.returncode == 4
    assert "there is no namespace 'nosuch' yet" in called.stderr


def test_a_csv_file_becomes_a_file_of_answers(chorale: Run, questions: Path, tmp_path: Path) -> None:
    called = chorale("jobs", "submit", str(questions), "--watch", "--json")
    job = told(called)
    assert (job["state"], job["outcome"], job["counts"]["complete"]) == ("ended", "completed", 100)
    assert "waits" not in called.stderr
    answers = tmp_path / "answers.csv"
    assert chorale("jobs", "results", job["job_id"], "--output", str(answers)).returncode == 0
    with answers.open() as stream:
        rows = list(csv.DictReader(stream))
    assert list(dict.fromkeys(row["id"] for row in rows)) == [f"q{number}" for number in range(100)]
    assert {row["status"] for row in rows} == {"complete"}
    assert max(int(row["rank"]) for row in rows) == 3, "top_k of each line"

    need("pyarrow", "`make parquet` installs it")
    answers = answers.with_suffix(".parquet")
    assert chorale("jobs", "results", job["job_id"][:8], "--output", str(answers)).returncode == 0
    read = import_module("pyarrow.parquet").read_table(answers).to_pylist()
    assert [row["id"] for row in read] == [f"q{number}" for number in range(100)]
