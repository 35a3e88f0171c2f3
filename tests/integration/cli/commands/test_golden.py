"""`chorale golden` on a running pipeline: what passes, what is said of what does not, and the exit codes."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.integration.cli.commands.printed import complaint, document
from tests.support.command_line import Run

PASSING = """\
- question: how long is the notice period
  expected: notice
- question: ERR-4711
  expected: [error, manual]
"""


def _file(folder: Path, text: str) -> str:
    (folder / "golden.yaml").write_text(text, encoding="utf-8")
    return str(folder / "golden.yaml")


def test_a_file_whose_questions_all_pass_ends_with_0_and_the_figures(chorale: Run, tmp_path: Path) -> None:
    file = _file(tmp_path, PASSING)
    called = chorale("golden", file, "--top", "1")
    assert called.returncode == 0, called.stdout + called.stderr
    # Only half of what is expected of the second question is there.
    expected = "2 of 2 questions: an expected document is among the first 1  recall@10 0.750  ndcg@10 0.807\n"
    assert called.stdout == expected
    report = document(chorale("golden", file, "--json"))
    assert [verdict["ranked"][0] for verdict in report["verdicts"]] == ["notice", "error"]


def test_a_failed_question_is_shown_with_the_ranks_of_what_was_expected(chorale: Run, tmp_path: Path) -> None:
    file = _file(tmp_path, f"{PASSING}- question: the notice period\n  expected: [bread, butter]\n")
    called = chorale("golden", file, "--top", "1")
    assert called.returncode == 9, called.stdout + called.stderr
    title, bread, butter, first, *_, summary = called.stdout.splitlines()
    assert title == "line 5: the notice period"
    assert bread.startswith("  expected  bread: rank ")
    assert "vector " in bread
    assert butter == "  expected  butter: not among the first 100"
    assert first.startswith("  first     notice, ")
    assert summary.startswith("2 of 3 questions: ")
    assert chorale("golden", file, "--top", "1", "--may-fail", "1").returncode == 0


def test_degraded_answers_end_with_3_whatever_passed(chorale: Run, tmp_path: Path) -> None:
    called = chorale("golden", _file(tmp_path, PASSING), "--namespace", "nowhere")
    assert called.returncode == 3
    assert "  missing   search.bm25 bad_index" in called.stdout


FROGS = "Frogs of the pond sing at night.\n"


def _folder(folder: Path) -> Path:
    frogs = folder / "animals"
    frogs.mkdir()
    (frogs / "frogs.md").write_text(FROGS)
    (frogs / "storks.md").write_text("Storks build their nests on chimneys.\n")
    return frogs


def _namespaces(chorale: Run) -> list[str]:
    return [one["name"] for one in document(chorale("namespaces", "list", "--json"))["namespaces"]]


@pytest.mark.slow
def test_documents_are_searched_in_a_namespace_of_their_own_which_is_deleted_afterwards(
    chorale: Run, tmp_path: Path
) -> None:
    before = _namespaces(chorale)
    questions = (
        f"{PASSING}  namespace: nowhere\n- question: who sings at the pond\n  expected: animals/frogs.md\n"
    )
    options = ("--documents", str(_folder(tmp_path)), "--may-fail", "2", "--json")
    report = document(chorale("golden", _file(tmp_path, questions), *options))
    assert [verdict["passed"] for verdict in report["verdicts"]] == [False, False, True]
    assert set(report["verdicts"][2]["ranked"]) == {"animals/frogs.md", "animals/storks.md"}
    assert _namespaces(chorale) == before


def test_an_interrupted_run_deletes_its_namespace(
    chorale: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, there = _namespaces(chorale), []

    def interrupted(*_: object, namespace: str, **__: object) -> None:
        there.append(namespace)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("evaluation.judged.golden.judge", interrupted)
    called = chorale("golden", _file(tmp_path, PASSING), "--documents", str(_folder(tmp_path)))
    assert called.returncode not in (0, 9)
    assert there[0].startswith("golden-")
    assert _namespaces(chorale) == before


def test_documents_that_cannot_be_read_leave_no_namespace_behind(chorale: Run, tmp_path: Path) -> None:
    before, file = _namespaces(chorale), _file(tmp_path, PASSING)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "torn.jsonl").write_text("{torn\n")
    called = chorale("golden", file, "--documents", str(broken))
    assert called.returncode == 1, called.stdout + called.stderr
    assert "malformed (1)" in called.stderr
    assert "--documents: there is no document to index" in called.stderr
    assert chorale("golden", file, "--documents", str(tmp_path / "none")).returncode == 2
    assert chorale("golden", file, "--documents", str(broken), "-n", "docs").returncode == 2
    assert _namespaces(chorale) == before


def test_a_wrong_file_is_named_with_line_and_field(alone: Run, tmp_path: Path) -> None:
    wrong = complaint(alone("golden", _file(tmp_path, f"{PASSING}- question: one\n  expected: 1\n")), 2)
    reason = "1 is not the id of a document (a text); [] says that nothing answers\n"
    assert wrong.endswith(f"golden.yaml, line 6, `expected`: {reason}")
    assert alone("golden", str(tmp_path / "none.yaml")).returncode == 2
