"""Comparing two rankings of judged questions, asked or recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from chorale_client.answer import QuestionAnswer

from evaluation.judged.collection import Collection
from evaluation.judged.comparison import (
    Answered,
    WrongAnswers,
    answered,
    compare,
    count_faults,
    read_answers,
    write_answers,
)
from tasks.wiring.pipeline import load_pipeline
from tests.support.command_line import in_process
from tests.unit.evaluation.answers import Service, hit, question

QUESTIONS = {"q1": "one", "q2": "two", "q3": "three"}
JUDGED = {"q1": {"a": 1}, "q2": {"b": 1}, "q3": {"c": 1}}
COLLECTION = Collection("tiny", Path("corpus.jsonl"), QUESTIONS, JUDGED)
BRANCH = {"score": 9.0, "normalised": 0.5, "weight": 0.3, "contribution": 0.15, "passage_id": "p"}


def _answer(*ids: str) -> QuestionAnswer:
    hits = [hit(rank, id_, branches={"bm25": {**BRANCH, "rank": rank}}) for rank, id_ in enumerate(ids, 1)]
    return QuestionAnswer.model_validate({"status": "complete", "hits": hits})


A = Answered("old", {"q1": _answer("a"), "q2": _answer("x", "b"), "q3": _answer("x", "y", "c")})
B = Answered("new", {"q1": _answer("a"), "q2": _answer("b", "x"), "q3": _answer("z", "x", "y", "c")})


def test_wins_losses_and_ties_are_counted_by_question() -> None:
    comparison = compare(COLLECTION, A, B, measure="mrr@10")
    assert (comparison.gain.wins, comparison.gain.losses, comparison.ties) == (1, 1, 1)
    assert comparison.gain.mean == pytest.approx((1 / 2 + (1 / 4 - 1 / 3)) / 3)
    assert comparison.means["mrr@10"] == pytest.approx(((1 + 1 / 2 + 1 / 3) / 3, (1 + 1 + 1 / 4) / 3))
    assert not comparison.gain.is_distinguishable


def test_the_question_that_differs_most_comes_first_with_its_documents_branch_by_branch() -> None:
    comparison = compare(COLLECTION, A, B, measure="mrr@10", movers=1)
    (mover,) = comparison.movers
    assert (mover.question_id, mover.values) == ("q2", (0.5, 1.0))
    relevant, other = mover.moved
    assert (relevant.document_id, other.document_id) == ("b", "x")
    assert relevant.before is not None
    assert relevant.after is not None
    assert (relevant.before.rank, relevant.after.rank) == (2, 1)
    assert relevant.after.branches["bm25"].contribution == 0.15
    (wire,) = comparison.to_wire()["movers"]
    place = {"rank": 2, "score": 9.0, "contribution": 0.15}
    assert wire["documents"][0]["before"]["branches"] == {"bm25": place}


def test_a_question_that_a_side_did_not_answer_counts_as_0_there() -> None:
    comparison = compare(COLLECTION, A, Answered("new", {"q1": _answer("a")}), measure="mrr@10")
    assert (comparison.gain.wins, comparison.gain.losses) == (0, 2)
    assert {mover.question_id for mover in comparison.movers} == {"q2", "q3"}
    assert all(document.after is None for mover in comparison.movers for document in mover.moved)


def test_a_configuration_is_asked_with_explanations_and_without_cache() -> None:
    ask = Service(question("a", status="degraded"), question("a"), question("a"))
    side = answered(COLLECTION, load_pipeline(), "scores", ask=ask)
    (request,) = ask.requests
    assert (request.configuration, request.cache, request.boosts) == ("scores", "bypass", "off")
    assert request.include == ("ids", "explanation")
    assert (side.name, list(side.answers)) == ("scores", ["q1", "q2", "q3"])
    assert count_faults(COLLECTION, side.answers) == 1


def test_answers_are_read_as_they_were_written(tmp_path: Path) -> None:
    write_answers(A, file := tmp_path / "old.jsonl")
    answers = read_answers(file, COLLECTION).answers
    assert (answers, count_faults(COLLECTION, answers)) == (A.answers, 0)


def test_a_refused_line_with_the_id_of_an_answered_one_is_no_answer(tmp_path: Path) -> None:
    lines = [{"id": "q1", **question("a")}, {"id": "q1", **question(status="refused")}]
    (file := tmp_path / "answers.jsonl").write_text("\n".join(map(json.dumps, lines)))
    answers = read_answers(file, COLLECTION).answers
    assert [hit.document_id for hit in answers["q1"].hits] == ["a"]
    assert count_faults(COLLECTION, answers) == 2


def test_a_trec_run_is_ordered_by_its_ranks(tmp_path: Path) -> None:
    (file := tmp_path / "run.trec").write_text("q1 Q0 b 2 0.5 other\nq1 Q0 a 1 0.9 other\n")
    answers = read_answers(file, COLLECTION).answers
    assert [hit.document_id for hit in answers["q1"].hits] == ["a", "b"]
    assert count_faults(COLLECTION, answers) == 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("q1 Q0 a first 0.9 other", "line 1: neither"),
        ('{"id": "q1", "hits": 7}', "line 1: neither"),
        ('{"hits": []}', "line 1: neither"),
        ("q9 Q0 a 1 0.9 other", "no answers to questions of tiny"),
    ],
)
def test_a_file_that_holds_no_answers_is_refused_by_its_line(tmp_path: Path, text: str, why: str) -> None:
    (file := tmp_path / "run").write_text(text)
    with pytest.raises(WrongAnswers, match=why):
        read_answers(file, COLLECTION)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (folder := tmp_path / "tiny" / "qrels").mkdir(parents=True)
    (folder / "test.tsv").write_text("q1\ta\t1\nq2\tb\t1\nq3\tc\t1")
    (folder.parent / "corpus.jsonl").write_text("")
    lines = [json.dumps({"_id": id_, "text": text}) for id_, text in QUESTIONS.items()]
    (folder.parent / "queries.jsonl").write_text("\n".join(lines))
    return folder.parent


def test_two_recorded_files_are_compared_where_nothing_runs(folder: Path, tmp_path: Path) -> None:
    files = [str(tmp_path / f"{side.name}.jsonl") for side in (A, B)]
    for side, file in zip((A, B), files, strict=True):
        write_answers(side, Path(file))
    command = ("compare", *files, str(folder), "--measure", "mrr@10")
    home = {"CHORALE_HOME": str(tmp_path / "home")}

    called = in_process(*command, "--json", **home)
    assert (called.returncode, called.stderr) == (0, "")
    wire = json.loads(called.stdout)
    assert (wire["v"], wire["a"], wire["gain"]["wins"], wire["gain"]["ties"]) == (1, files[0], 1, 1)
    assert wire["movers"][0]["question_id"] == "q2"

    output = in_process(*command, **home).stdout
    for part in ("B wins 1, loses 1, ties 1", "0.500 → 1.000  two", "#2 0.1500 → #1 0.1500", "- → #1 0.1500"):
        assert part in output


def test_what_is_neither_a_file_nor_a_configuration_is_named(folder: Path, tmp_path: Path) -> None:
    called = in_process("compare", "magic", "rrf", str(folder), CHORALE_HOME=str(tmp_path / "home"))
    assert called.returncode == 2
    assert "magic: neither a file nor a configuration; there are: rrf" in called.stderr
