"""`chorale jobs` as a person calls it, with results written through the store."""

from __future__ import annotations

import csv
import json
import signal
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from chorale_client.jobs import lines as client_lines

from cli.jobs import view
from cli.jobs.view import replaced
from records.database import upgrade
from records.jobs.job import Outcome, State
from records.jobs.store import Jobs
from tests.integration.cli.commands.printed import complaint, document
from tests.support.command_line import Run
from tests.support.jobs import answered, ended, lines, next_segment, result, submitted
from tests.support.servers.services import need

ROWS = 20


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
    rows = [("id", "text", "top_k"), *((f"q{number}", f"what is {number}?", 3) for number in range(ROWS))]
    with file.open("w") as stream:
        csv.writer(stream).writerows(rows)
    return file


def test_a_file_is_submitted_where_nothing_runs_and_waits(alone: Run, store: Jobs, questions: Path) -> None:
    options = ("-n", "law", "--tenant", "acme", "--deadline", "2h", "--options", '{"top_k": 7}')
    called = alone("jobs", "submit", str(questions), *options)
    assert called.returncode == 0, called.stderr
    job = store.get(called.stdout.strip())
    assert (job.state, job.total, job.name, job.tenant) == (State.QUEUED, ROWS, "questions.csv", "acme")
    assert job.deadline_at_ms is not None
    assert 7_140_000 < job.deadline_at_ms - job.created_at_ms <= 7_200_000
    complained = " ".join(called.stderr.split())
    assert "nothing runs here; the job waits for `chorale up`" in complained
    assert f"{ROWS} lines submitted; `chorale jobs show {job.job_id} --watch` watches" in complained
    # The line's own option goes before the default.
    assert next_segment(store, job.job_id).lines[0].fields == {
        "top_k": 3,
        "questions": [{"text": "what is 0?"}],
    }


def test_options_are_the_defaults_of_every_line_from_a_pipe(alone: Run, store: Jobs) -> None:
    rows = '{"text": "bread?"}\n\n{"id": "b", "text": "butter?", "depth": 20}\n'
    options = ("--options", '{"cache": "bypass", "include": ["ids"], "top_k": 30}')
    job = document(alone("jobs", "submit", "-", *options, "--json", stdin=rows))
    assert (job["state"], job["total"], job["name"]) == ("queued", 2, "")
    first, second = next_segment(store, job["job_id"]).lines
    expected = {"include": ["ids"], "top_k": 30, "cache": "bypass", "questions": [{"text": "bread?"}]}
    assert (first.id, first.fields) == ("1", expected)
    assert (second.number, second.id, (second.fields or {})["depth"]) == (3, "b", 20)


def test_wrong_lines_are_named_and_refuse_the_file_or_are_skipped_on_request(
    alone: Run, store: Jobs, tmp_path: Path
) -> None:
    file = tmp_path / "wrong.jsonl"
    texts = [json.dumps({"id": f"q{n}", "text": "" if n % 4 == 0 else "what?"}) for n in range(1, 101)]
    file.write_text("\n".join(texts))
    complained = complaint(alone("jobs", "submit", str(file)), 2)
    first = ", ".join(str(number) for number in range(4, 81, 4))
    assert f"25 of 100 lines are wrong:\n  lines {first}: text: empty\n  and 5 more" in complained
    (refused,) = store.last(10)
    assert (refused.state, refused.outcome, refused.total) == (State.ENDED, Outcome.FAILED, 0)
    assert "25 of 100 lines are wrong" in refused.reason

    called = alone("jobs", "submit", str(file), "--on-error", "skip")
    assert called.returncode == 0
    assert "25 of 100 lines are wrong:\n  lines 4, 8," in called.stderr
    job = ended(store, called.stdout.strip())
    assert (store.get(job).refused, store.get(job).complete) == (25, 75)
    results = [json.loads(line) for line in alone("jobs", "results", job).stdout.splitlines()]
    assert [line["line"] for line in results] == [*range(1, 101)]
    assert [line["line"] for line in results if line["status"] == "refused"] == [*range(4, 101, 4)]
    assert results[3]["error"] == "text: empty"


def test_an_interrupted_submission_leaves_no_job_behind(
    alone: Run, store: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any, **options: Any) -> Iterator[Any]:
        yield from read_lines(*arguments, **options)
        assert store.last(1)[0].total, "some lines are stored"
        signal.raise_signal(signal.SIGTERM)

    read_lines = client_lines.read_lines
    monkeypatch.setattr(client_lines, "read_lines", interrupted)
    assert alone("jobs", "submit", "-", stdin='{"text": "bread?"}\n' * 3_000).returncode != 0
    (job,) = store.last(10)
    assert (job.state, job.outcome) == (State.ENDED, Outcome.FAILED)
    assert job.reason == "the submission was interrupted"


def test_jobs_are_listed_and_shown_by_the_beginning_of_their_ids(alone: Run, store: Jobs) -> None:
    ended(store, submitted(store, "f5334cde-1", [lines(4)], name="nightly"), {2: result("degraded")})
    running = submitted(store, "0a1b2c3d-2", [lines(2), lines(2, first=3)], now_ms=2, weight=2.0)
    answered(store, running, segments=1)
    store.note_rate(running, 0.5)
    first, second = document(alone("jobs", "list", "--json"))["jobs"]
    assert (first["job_id"], first["counts"]["complete"], first["eta_s"]) == (running, 2, 4.0)
    assert (second["job_id"], second["outcome"]) == ("f5334cde-1", "completed")
    assert "there are older jobs: `chorale jobs list 10`" in alone("jobs", "list", "1").stdout
    _, newer, older = alone("jobs", "list").stdout.splitlines()
    assert newer.split() == ["0a1b2c3d", "1970-01-01", "00:00:00", "default", "running", "4", "50%"]
    assert older.split()[-4:] == ["completed", "4", "100%", "nightly"]

    assert document(alone("jobs", "show", "f533", "--json"))["counts"]["degraded"] == 1
    rows = [" ".join(line.split()) for line in alone("jobs", "show", "0a1b").stdout.splitlines()]
    assert {"tenant default · weight 2", "pending 2", "complete 2", "rate 0 lines/s · 4 s left"} <= {*rows}
    unknown = complaint(alone("jobs", "show", "nobody"))
    assert unknown == "chorale: no job 'nobody'; `chorale jobs list` shows the jobs\n"


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
    alone: Run, store: Jobs, monkeypatch: pytest.MonkeyPatch, by_line: Any, outcome: Outcome, code: int
) -> None:
    job = submitted(store, "job", [lines(2)])

    def work(_: float) -> None:
        """Ends the job while the command sleeps between two looks."""
        if by_line is not None:
            answered(store, job, by_line)
        store.end(job, outcome, now_ms=100)

    monkeypatch.setattr(view, "time", SimpleNamespace(monotonic=time.monotonic, sleep=work))
    called = alone("jobs", "show", "job", "--watch", "--json")
    assert document(called, code)["outcome"] == outcome
    assert "queued: 0 of 2" in called.stderr


def test_a_job_is_paused_resumed_cancelled_and_retried(alone: Run, store: Jobs) -> None:
    job = submitted(store, "job", [lines(2), lines(2, first=3)])
    answered(store, job, {1: result("failed")}, segments=1)
    assert document(alone("jobs", "pause", "job", "--json"))["state"] == "paused"
    assert alone("jobs", "resume", "job").stdout == "job: goes on\n"
    assert document(alone("jobs", "cancel", "job", "--json"))["state"] == "cancelling"
    store.end(job, Outcome.CANCELLED, now_ms=5)
    assert "job 'job' is ended" in complaint(alone("jobs", "cancel", "job"))
    retry = ("jobs", "retry", "job", "--only")
    again = document(alone(*retry, "failed", "--only", "expired", "--deadline", "1h", "--json"))
    assert (again["lines"], store.get(job).state) == (3, State.QUEUED)
    wrong = complaint(alone(*retry, "complete"), 2)
    assert "'complete' is none of failed, expired, degraded" in wrong


def test_results_of_a_running_job_end_with_the_cursor_from_which_to_go_on(alone: Run, store: Jobs) -> None:
    job = submitted(store, "job", [lines(2), lines(2, first=3)])
    answered(store, job, segments=1)
    first = alone("jobs", "results", "job")
    cursor = "2 of 4 lines have no result yet; go on with `chorale jobs results job --after 2`\n"
    assert (first.returncode, first.stderr) == (8, cursor)
    ended(store, job)
    rest = alone("jobs", "results", "job", "--after", "2")
    assert (rest.returncode, rest.stderr) == (0, "")
    ids = [[json.loads(line)["id"] for line in called.stdout.splitlines()] for called in (first, rest)]
    assert ids == [["q1", "q2"], ["q3", "q4"]]


def test_results_are_written_in_the_format_of_the_file_s_name(
    alone: Run, store: Jobs, tmp_path: Path
) -> None:
    ended(store, submitted(store, "job", [lines(3)]), {2: result("failed")})
    files = [tmp_path / name for name in ("answers.csv", "answers.trec", "answers.jsonl")]
    for file in files:
        assert alone("jobs", "results", "job", "--output", str(file)).returncode == 0
    table, trec, rows = (file.read_bytes().decode() for file in files)
    assert [row["document_id"] for row in csv.DictReader(table.splitlines())] == ["d1", "", "d1"]
    assert trec.splitlines()[0].split() == ["q1", "Q0", "d1", "1", "0.5", "chorale"]
    assert len(rows.splitlines()) == 3
    assert alone("jobs", "results", "job", "--format", "csv").stdout == table
    assert "--output" in complaint(alone("jobs", "results", "job", "--format", "parquet"), 2)


def test_a_file_stays_as_it_is_until_all_results_are_written(tmp_path: Path) -> None:
    target = tmp_path / "answers.jsonl"
    target.write_text("earlier")
    with pytest.raises(TypeError), replaced(target) as stream:
        stream.writelines([b"half", None])  # type: ignore[list-item]
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("answers.jsonl", "earlier")]


def test_old_jobs_are_deleted_once_that_is_confirmed(alone: Run, store: Jobs) -> None:
    ended(store, submitted(store, "old", [lines(1)]))
    submitted(store, "waiting", [lines(1)])
    prune = ("jobs", "prune", "--older-than", "30d")
    assert "this deletes 1 job: add --yes" in complaint(alone(*prune), 2)
    assert document(alone(*prune, "--yes", "--json"))["removed"] == 1
    assert [job.job_id for job in store.last(10)] == ["waiting"]


def test_two_ended_jobs_are_compared(alone: Run, store: Jobs) -> None:
    ended(store, submitted(store, "before", [lines(3)]), {1: result("degraded")})
    other = result(hits=[{"rank": 1, "document_id": "d2", "score": 0.5}])
    ended(store, submitted(store, "after", [lines(3, first=2)]), {2: other})
    compared = document(alone("jobs", "compare", "bef", "aft", "--json"))
    assert compared["jobs"] == ["before", "after"]
    assert (compared["equal_top_hits"], compared["degraded"]) == (0.5, [{"vector unavailable": 1}, {}])
    rows = [" ".join(line.split()) for line in alone("jobs", "compare", "bef", "aft").stdout.splitlines()]
    summary = "2 questions of 2 lines compared: 50.0% have the same top hit, overlap@10 is 0.500"
    assert (summary in " ".join(rows), "missing vector unavailable 1 0" in rows) == (True, True)
    submitted(store, "running", [lines(3)])
    assert "only ended jobs are compared" in complaint(alone("jobs", "compare", "before", "running"))


def test_without_any_job_the_answer_is_one_sentence_and_no_file_is_made(alone: Run, tmp_path: Path) -> None:
    assert document(alone("jobs", "list", "--json"))["jobs"] == []
    sentence = "there are no jobs yet: `chorale jobs submit FILE` makes one\n"
    assert alone("jobs", "list").stdout == sentence
    assert complaint(alone("jobs", "show", "any")) == f"chorale: {sentence}"
    assert not (tmp_path / "home" / "audit.db").exists()


def test_a_database_that_cannot_be_used_is_answered_with_one_sentence(
    alone: Run, questions: Path, tmp_path: Path
) -> None:
    damaged = tmp_path / "damaged.db"
    damaged.write_text("this is no database")
    for arguments in (("submit", str(questions)), ("list",)):
        sentence = complaint(alone("jobs", *arguments, CHORALE_AUDIT_URL=f"sqlite:///{damaged}"))
        assert sentence.startswith("chorale: the database of the jobs cannot be used: ")
        assert sentence.endswith("file is not a database\n")


def test_on_a_running_pipeline_an_unknown_namespace_is_named(chorale: Run, questions: Path) -> None:
    called = chorale("jobs", "submit", str(questions), "-n", "nosuch", "--watch")
    assert (called.returncode, "there is no namespace 'nosuch' yet" in called.stderr) == (4, True)


def test_a_csv_file_becomes_a_file_of_answers(chorale: Run, questions: Path, tmp_path: Path) -> None:
    called = chorale("jobs", "submit", str(questions), "--watch", "--json")
    job = document(called)
    assert (job["state"], job["outcome"], job["counts"]["complete"]) == ("ended", "completed", ROWS)
    assert "waits" not in called.stderr
    answers, ids = tmp_path / "answers.csv", [f"q{number}" for number in range(ROWS)]
    assert chorale("jobs", "results", job["job_id"], "--output", str(answers)).returncode == 0
    rows = list(csv.DictReader(answers.read_text().splitlines()))
    assert list(dict.fromkeys(row["id"] for row in rows)) == ids
    assert {row["status"] for row in rows} == {"complete"}
    assert max(int(row["rank"]) for row in rows) == 3, "top_k of each line"

    need("pyarrow", "`make parquet` installs it")
    answers = answers.with_suffix(".parquet")
    assert chorale("jobs", "results", job["job_id"][:8], "--output", str(answers)).returncode == 0
    assert [row["id"] for row in import_module("pyarrow.parquet").read_table(answers).to_pylist()] == ids
