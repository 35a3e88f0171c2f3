"""Comparing two rankings of judged questions, asked or recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from chorale_client.answer import Answer, QuestionAnswer
from chorale_client.request import Request

from assembly.pipeline import load_pipeline
from evaluation.collection import Collection
from evaluation.comparison import Answered, answered, compare, count_faults
from evaluation.recorded_answers import WrongAnswers, read_answers, write_answers
from tests.support.command_line import in_process
from tests.unit.evaluation.answers import hit, question

COLLECTION = Collection(
    "tiny",
    Path("corpus.jsonl"),
    {"q1": "one", "q2": "two", "q3": "three"},
    {"q1": {"a": 1}, "q2": {"b": 1}, "q3": {"c": 1}},
)


BRANCH = {"score": 9.0, "normalised": 0.5, "weight": 0.3, "contribution": 0.15, "passage_id": "p"}


def _answer(*ids: str, status: str = "complete") -> QuestionAnswer:
    hits = [hit(rank, id_, branches={"bm25": {**BRANCH, "rank": rank}}) for rank, id_ in enumerate(ids, 1)]
    return QuestionAnswer.model_validate({"status": status, "hits": hits})


A = Answered("old", {"q1": _answer("a"), "q2": _answer("x", "b"), "q3": _answer("x", "y", "c")})
B = Answered("new", {"q1": _answer("a"), "q2": _answer("b", "x"), "q3": _answer("z", "x", "y", "c")})


def test_wins_losses_and_ties_are_counted_by_question() -> None:
    found = compare(COLLECTION, A, B, measure="mrr@10")

    assert (found.gain.wins, found.gain.losses, found.ties) == (1, 1, 1)
    assert found.gain.mean == pytest.approx((1 / 2 + (1 / 4 - 1 / 3)) / 3)
    assert found.means["mrr@10"] == pytest.approx(((1 + 1 / 2 + 1 / 3) / 3, (1 + 1 + 1 / 4) / 3))
    assert not found.gain.is_distinguishable


def test_the_question_that_differs_most_comes_first_with_its_documents_branch_by_branch() -> None:
    found = compare(COLLECTION, A, B, measure="mrr@10", movers=1)

    (mover,) = found.movers
    assert (mover.question_id, mover.values) == ("q2", (0.5, 1.0))
    relevant, other = mover.moved
    assert (relevant.document_id, other.document_id) == ("b", "x")
    assert relevant.before is not None
    assert relevant.after is not None
    assert (relevant.before.rank, relevant.after.rank) == (2, 1)
    assert relevant.after.branches["bm25"].contribution == 0.15
    (wire,) = found.to_wire()["movers"]
    assert wire["documents"][0]["before"]["branches"] == {
        "bm25": {"rank": 2, "score": 9.0, "contribution": 0.15}
    }


def test_a_question_that_a_side_did_not_answer_counts_as_0_there() -> None:
    found = compare(COLLECTION, A, Answered("new", {"q1": _answer("a")}), measure="mrr@10")
    assert (found.gain.wins, found.gain.losses) == (0, 2)
    assert {mover.question_id for mover in found.movers} == {"q2", "q3"}
    assert all(document.after is None for mover in found.movers for document in mover.moved)


def test_a_configuration_is_asked_with_explanations_and_without_cache() -> None:
    asked: list[Request] = []

    def ask(request: Request) -> Answer:
        asked.append(request)
        questions = [_answer("a", status="degraded" if request.questions[0].text == "one" else "complete")]
        return Answer(
            request_id=request.request_id, status="complete", questions=(*questions, *questions, *questions)
        )

    found = answered(COLLECTION, load_pipeline(), "scores", ask=ask)

    (request,) = asked
    assert (request.configuration, request.cache, request.boosts) == ("scores", "bypass", "off")
    assert request.include == ("ids", "explanation")
    assert (found.name, list(found.answers), count_faults(COLLECTION, found.answers)) == (
        "scores",
        ["q1", "q2", "q3"],
        3,
    )


def test_answers_are_read_as_they_were_written(tmp_path: Path) -> None:
    write_answers(A, file := tmp_path / "old.jsonl")
    found = read_answers(file, COLLECTION)
    assert (found.answers, count_faults(COLLECTION, found.answers)) == (A.answers, 0)


def test_a_refused_line_with_the_id_of_an_answered_one_is_no_answer(tmp_path: Path) -> None:
    lines = [{"id": "q1", **question("a")}, {"id": "q1", **question(status="refused")}]
    (file := tmp_path / "answers.jsonl").write_text("\n".join(map(json.dumps, lines)))
    found = read_answers(file, COLLECTION)
    assert [one.document_id for one in found.answers["q1"].hits] == ["a"]
    assert count_faults(COLLECTION, found.answers) == 2


def test_a_trec_run_is_ordered_by_its_ranks(tmp_path: Path) -> None:
    (file := tmp_path / "run.trec").write_text("q1 Q0 b 2 0.5 other\nq1 Q0 a 1 0.9 other\n")
    found = read_answers(file, COLLECTION)
    assert [hit.document_id for hit in found.answers["q1"].hits] == ["a", "b"]
    assert count_faults(COLLECTION, found.answers) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("q1 Q0 a first 0.9 other", "line 1: neither"),
        ('{"id": "q1", "hits": 7}', "line 1: neither"),
        ('{"hits": []}', "line 1: neither"),
        ("q9 Q0 a 1 0.9 other", "no answers to questions of tiny"),
    ],
)
def test_a_file_that_holds_no_answers_is_refused_by_its_line(tmp_path: Path, text: str, said: str) -> None:
    (file := tmp_path / "run").write_text(text)
    with pytest.raises(WrongAnswers, match=said):
        read_answers(file, COLLECTION)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (folder := tmp_path / "tiny" / "qrels").mkdir(parents=True)
    (folder / "test.tsv").write_text("q1\ta\t1\nq2\tb\t1\nq3\tc\t1")
    (folder.parent / "corpus.jsonl").write_text("")
    texts = COLLECTION.questions.items()
    (folder.parent / "queries.jsonl").write_text(
        "\n".join(json.dumps({"_id": id_, "text": text}) for id_, text in texts)
    )
    return folder.parent


def test_two_recorded_files_are_compared_where_nothing_runs(folder: Path, tmp_path: Path) -> None:
    for side in (A, B):
        write_answers(side, tmp_path / f"{side.name}.jsonl")
    files = [str(tmp_path / f"{name}.jsonl") for name in ("old", "new")]
    home = {"CHORALE_HOME": str(tmp_path / "home")}

    said = in_process("compare", *files, str(folder), "--measure", "mrr@10", "--json", **home)
    assert (said.returncode, said.stderr) == (0, "")
    found = json.loads(said.stdout)
    assert (found["v"], found["a"], found["gain"]["wins"], found["gain"]["ties"]) == (1, files[0], 1, 1)
    assert found["movers"][0]["question_id"] == "q2"

    shown = in_process("compare", *files, str(folder), "--measure", "mrr@10", **home).stdout
    assert "B wins 1, loses 1, ties 1" in shown
    assert "0.500 → 1.000  two" in shown
    assert "#2 0.1500 → #1 0.1500" in shown
    assert "- → #1 0.1500" in shown


def test_what_is_neither_a_file_nor_a_configuration_is_told(folder: Path, tmp_path: Path) -> None:
    said = in_process("compare", "magic", "rrf", str(folder), CHORALE_HOME=str(tmp_path / "home"))
    assert said.returncode == 2
    assert "magic: neither a file nor a configuration; there are: rrf" in said.stderr
