"""Collections in the BEIR layout, and the errors for other folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from chorale_client.limits import MAX_LINE_BYTES

import evaluation.judged.collection
from evaluation.judged.collection import WrongCollection, read_collection


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "My Collection"
    (folder / "qrels").mkdir(parents=True)
    documents = [{"_id": name, "title": "", "text": f"about {name}"} for name in ("a", "b")]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, documents)) + "\n\n")
    questions = [{"_id": name, "text": f"{name}?"} for name in ("unjudged", "q2", "q1")]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, questions)) + "\n")
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\ta\t1\nq2\tb\t2\nq1\tb\t0\n")
    return folder


def test_only_the_judged_questions_are_asked_in_the_order_of_the_judgements(folder: Path) -> None:
    collection = read_collection(folder, "test")
    assert list(collection.questions.items()) == [("q1", "q1?"), ("q2", "q2?")]
    assert collection.judgements == {"q1": {"a": 1, "b": 0}, "q2": {"b": 2}}
    assert (collection.count_documents(), collection.namespace) == (2, "eval-my-collection")
    limited = collection.limited(1)
    assert (list(limited.questions), list(limited.judgements)) == (["q1"], ["q1"])
    assert len(collection.limited(None).questions) == 2


def test_an_unknown_split_and_a_missing_file_are_named(folder: Path) -> None:
    with pytest.raises(WrongCollection, match="no split 'dev'; there are: test"):
        read_collection(folder, "dev")
    (folder / "queries.jsonl").unlink()
    with pytest.raises(WrongCollection, match=r"queries.jsonl is missing"):
        read_collection(folder, "test")


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("q1\ta", "test.tsv, line 2"),
        ("q1\ta\tmuch", "test.tsv, line 2"),
        ("q1\t\t1", "test.tsv, line 2"),
        ("q9\ta\t1", "no question 'q9'"),
    ],
)
def test_a_judgement_that_cannot_be_read_is_named(folder: Path, row: str, why: str) -> None:
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{row}\n")
    with pytest.raises(WrongCollection, match=why):
        read_collection(folder, "test")


@pytest.mark.parametrize("name", ["queries.jsonl", "qrels/test.tsv"])
@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"x" * (MAX_LINE_BYTES + 1), "line 2: longer than 1,000,000 bytes"),
        (b"\xff\xfe", "line 2: not UTF-8"),
        (b"[" * 100_000, "line 2: not "),
        (b"q1\ta\t" + b"9" * 900_000, "line 2: not "),
    ],
    ids=["long", "not UTF-8", "deep", "a number of many digits"],
)
def test_a_line_that_would_fill_the_memory_is_named_and_not_shown(
    folder: Path, name: str, line: bytes, says: str
) -> None:
    with (folder / name).open("r+b") as file:
        file.readline()
        file.write(line + b"\n")
    with pytest.raises(WrongCollection, match=says) as raised:
        read_collection(folder, "test")
    assert len(str(raised.value)) < 500


def test_too_many_lines_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation.judged.collection, "MAX_LINES", 2)
    with pytest.raises(WrongCollection, match=r"test.tsv, line 3: more than 2 lines"):
        read_collection(folder, "test")


def test_a_document_of_several_megabytes_counts_once(folder: Path) -> None:
    with (folder / "corpus.jsonl").open("ab") as file:
        file.write(b'{"_id": "c", "text": "' + b"x" * 3_000_000 + b'"}\n')
    assert read_collection(folder, "test").count_documents() == 3


def test_a_question_is_itself_a_document_if_id_and_text_are_equal_but_not_by_its_number_alone(
    folder: Path,
) -> None:
    documents = [
        {"_id": "q1", "title": "First", "text": "Q1?"},
        {"id": "q2", "title": "", "text": "another text"},
        {"_id": "a", "text": "q2?"},
    ]
    (folder / "corpus.jsonl").write_text("no JSON\n[]\n" + "\n".join(map(json.dumps, documents)))
    collection = read_collection(folder, "test")
    assert collection.own == {"q1"}
    assert collection.exclusion_note == (
        "left out of the answers: 1 document that is the question itself (same id and text)"
    )
    (folder / "corpus.jsonl").write_text(json.dumps({"_id": "q2", "title": "The q2?", "text": "It is."}))
    assert read_collection(folder, "test").exclusion_note == ""
    (folder / "corpus.jsonl").write_text(json.dumps({"_id": "q2", "title": "q2?", "text": ""}))
    assert read_collection(folder, "test").own == {"q2"}, "title and text together are the document"
