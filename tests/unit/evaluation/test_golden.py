"""Golden files, the answers to their questions, and their figures."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from chorale_client.answer import Answer
from chorale_client.request import Request

from evaluation.judged.golden import GoldenQuestion, WrongGolden, figures, judge, read_golden
from tests.unit.evaluation.answers import answer, hit, question

SCORE = {"score": 1.0, "normalised": 1.0, "weight": 1.0, "contribution": 1.0, "passage_id": "p"}


def _answer(*ids: str, missing: Sequence[tuple[str, str]] = (), **fields: Any) -> Answer:
    """`bm25` has ranked each hit, and `vector` only scored it."""
    hits = [
        hit(rank, id_, branches={"bm25": {**SCORE, "rank": rank}, "vector": {**SCORE, "rank": 0}})
        for rank, id_ in enumerate(ids, 1)
    ]
    return answer(question(**{"hits": hits, **fields}), missing=missing)


def _judge(golden: GoldenQuestion, page: Answer, deep: Answer | None = None) -> Any:
    requests: list[Request] = []

    def ask(request: Request) -> Answer:
        requests.append(request)
        return page if request.top_k == 10 or deep is None else deep

    (verdict,) = judge([golden], ask=ask, namespace="law")
    return verdict, requests


def test_a_question_passes_if_one_of_its_documents_is_among_the_first() -> None:
    verdict, requests = _judge(GoldenQuestion(1, "one", {"e": 1, "z": 1}), _answer(*"abcdefg"))
    assert (verdict.passed, verdict.ranked, verdict.missing) == (True, list("abcdefg"), "")
    (request,) = requests
    assert (request.namespace, request.cache, request.top_k) == ("law", "bypass", 10)


def test_a_failed_question_is_asked_deeper_for_the_ranks_of_its_documents() -> None:
    golden = GoldenQuestion(1, "one", {"f": 1, "m": 1, "z": 1}, "other", {"year": 2020})
    verdict, requests = _judge(golden, _answer(*"abcdefg"), _answer(*"abcdeghijklm"))
    assert not verdict.passed
    # The branch that only scored the document has no rank.
    ranks = [(place.document_id, place.rank, place.branches) for place in verdict.placements]
    assert ranks == [("f", 6, {"bm25": 6}), ("m", 12, {"bm25": 12}), ("z", None, {})]
    assert [request.top_k for request in requests] == [10, 100]
    for request in requests:
        assert (request.namespace, request.filters) == ("other", {"year": 2020})


def test_a_copy_is_as_good_as_its_hit() -> None:
    folded = [{"document_id": "copy", "why": "exact_copy"}]
    page = _answer(hits=[hit(1, "a", folded=folded)])
    assert _judge(GoldenQuestion(1, "one", {"copy": 1}), page)[0].passed


def test_a_question_that_nothing_answers_passes_if_the_answer_abstains() -> None:
    golden = GoldenQuestion(1, "who won", {})
    assert _judge(golden, _answer("a", abstained=True, confidence=0.1))[0].passed
    verdict, requests = _judge(golden, _answer("a", confidence=0.8))
    assert (verdict.passed, verdict.confidence, len(requests)) == (False, 0.8, 1)


def test_what_an_answer_lacks_is_named() -> None:
    lacking = _answer("a", missing=[("search.hyde", "timeout")])
    assert _judge(GoldenQuestion(1, "one", {"a": 1}), lacking)[0].missing == "search.hyde timeout"
    verdict, _ = _judge(GoldenQuestion(1, "one", {"a": 1}), answer(status="refused"))
    assert (verdict.passed, verdict.missing) == (False, "refused")


def test_a_question_that_no_request_can_ask_is_named_before_any_is_asked() -> None:
    wrong = GoldenQuestion(3, "two", {"a": 1}, filters={"year": {"near": 1}})
    questions = [GoldenQuestion(1, "one", {"a": 1}), wrong]
    with pytest.raises(WrongGolden, match=r"line 3: .*filters"):
        judge(questions, ask=lambda request: pytest.fail("asked"), namespace="law")


def test_questions_that_nothing_answers_have_no_part_in_the_figures() -> None:
    verdicts = [
        _judge(GoldenQuestion(1, "one", {"b": 1}), _answer("a", "b"))[0],
        _judge(GoldenQuestion(2, "two", {}), _answer("a", abstained=True))[0],
    ]
    assert figures(verdicts) == {"recall@10": 1.0, "ndcg@10": pytest.approx(0.6309, abs=1e-4)}
    assert figures(verdicts[1:]) == {}


YAML = """\
# Comments are what YAML is chosen for.
- question: how long is the notice period
  expected: notice
- question: who pays
  expected: {repairs: 2, deposit: 1}
  namespace: law
  filters: {year: {gte: 2020}}
- question: who won
  expected: []
"""


def _file(folder: Path, text: str, name: str = "golden.yaml") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_a_yaml_file_has_questions_documents_grades_namespaces_and_filters(tmp_path: Path) -> None:
    assert read_golden(_file(tmp_path, YAML)) == [
        GoldenQuestion(2, "how long is the notice period", {"notice": 1}),
        GoldenQuestion(4, "who pays", {"repairs": 2, "deposit": 1}, "law", {"year": {"gte": 2020}}),
        GoldenQuestion(8, "who won", {}),
    ]


def test_json_lines_have_the_same_fields(tmp_path: Path) -> None:
    entries = [{"question": "how long", "expected": ["notice"]}, {"question": "who won", "expected": []}]
    text = "\n\n".join(map(json.dumps, entries))
    assert read_golden(_file(tmp_path, text, "golden.jsonl")) == [
        GoldenQuestion(1, "how long", {"notice": 1}),
        GoldenQuestion(3, "who won", {}),
    ]


ENTRY = "- question: one\n  expected: a\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "golden.yaml: no questions"),
        ("one", "line 1: not a list of questions"),
        (f"{ENTRY}- two", "line 3: not an object with `question` and `expected`"),
        (f"{ENTRY}- question: two", "line 3: `expected` is missing"),
        (f"{ENTRY}- expected: a", "line 3: `question` is missing"),
        (f"{ENTRY}- question: two\n  expected:", "line 4, `expected`: None is not the id of a document"),
        (f"{ENTRY}- question: two\n  expected: [1.10]", "line 4, `expected`: 1.1 is not the id"),
        (f"{ENTRY}- question: two\n  expected: ['']", "line 4, `expected`: the id is empty"),
        (f"{ENTRY}- question: two\n  expected: {{a: high}}", "line 4, `expected`: the grade of 'a'"),
        (f"{ENTRY}- question: two\n  expected: [[a, b]]", "line 4, `expected`: ['a', 'b'] is not the id"),
        (f"{ENTRY}- question: 2\n  expected: a", "line 3, `question`: 2 is not a text"),
        (f"{ENTRY}- question: two\n  expected: a\n  filter: b", "line 5, `filter`: no such field; there are"),
        (f"{ENTRY}- question: two\n  expected: a\n  filters: b", "line 5, `filters`: not an object"),
        (f"{ENTRY}{ENTRY}", "line 3, `question`: stands in line 1 already"),
        (f"{ENTRY}- question: [", "line 3: not YAML"),
        (f"{ENTRY}- question: !!python/name:os.system x", "line 3: not YAML"),
        (
            f"{ENTRY}- question: 2024-99-99\n",
            "line 3: not YAML: '2024-99-99' is not a value of the type timestamp",
        ),
        ("- " * 2_000, "golden.yaml: not YAML"),
        ("- &a [x, x]\n- &b [*a, *a]\n", "line 2: not YAML: aliases (`*name`) are not allowed"),
        ("- &a\n  question: *a", "line 2: not YAML: aliases (`*name`) are not allowed"),
        ("\x00", "golden.yaml: not YAML"),
        ("\n\n", "golden.jsonl: no questions"),
        ("{", "golden.jsonl, line 1: not a JSON object"),
        ("[" * 100_000, "golden.jsonl, line 1: not a JSON object"),
        ("[]", "golden.jsonl, line 1: not an object with"),
        ('\n{"question": "one", "expected": 1}', "golden.jsonl, line 2, `expected`: 1 is not the id"),
    ],
)
def test_a_wrong_entry_is_named_with_its_line_and_field(tmp_path: Path, text: str, says: str) -> None:
    name = "golden.jsonl" if says.startswith("golden.jsonl") else "golden.yaml"
    with pytest.raises(WrongGolden, match=re.escape(says)):
        read_golden(_file(tmp_path, text, name))


def test_a_file_that_is_not_utf_8_or_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "golden.yaml").write_bytes(b"- question: \xff")
    with pytest.raises(WrongGolden, match="not UTF-8"):
        read_golden(tmp_path / "golden.yaml")
    with pytest.raises(WrongGolden, match="a golden file is YAML"):
        read_golden(_file(tmp_path, "", "golden.csv"))
