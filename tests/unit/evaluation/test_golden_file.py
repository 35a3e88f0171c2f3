"""Golden files: what may stand in them, and what is said of what may not."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from evaluation.judged.golden import GoldenQuestion, WrongGolden, read_golden

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
        (f"{ENTRY}- question: 2024-99-99\n", "golden.yaml: not YAML"),
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
