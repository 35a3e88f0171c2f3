"""A job's input is read line by line, and what is wrong with a line is said with the line's number."""

from __future__ import annotations

import io
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from chorale_client import InvalidRequest, make_request
from chorale_client.jobs import lines as module
from chorale_client.jobs.job_line import JobLine
from chorale_client.jobs.lines import LINE_FIELDS, form_of, read_lines
from chorale_client.limits import MAX_LINE_BYTES


def read(text: str | bytes, form: str = "jsonl", **defaults: Any) -> list[JobLine]:
    raw = text.encode() if isinstance(text, str) else text
    return list(read_lines(io.BytesIO(raw), form=form, defaults=defaults))


def fields(text: str, form: str = "jsonl", **defaults: Any) -> dict[str, Any] | None:
    """The fields of the only line."""
    (line,) = read(text, form, **defaults)
    assert line.error is None
    return line.fields


# What a line becomes


def test_a_line_of_json_or_csv_becomes_a_request_with_its_id_and_number() -> None:
    assert read('{"id": "q1", "text": "tea"}\n\n  \r\n{"text": "rice", "top_k": 9}') == [
        JobLine(1, "q1", {"questions": [{"text": "tea"}]}, None),
        JobLine(4, "4", {"top_k": 9, "questions": [{"text": "rice"}]}, None),
    ]
    assert read('id,text,top_k\r\nq1,"tea, ""green""",\r\n\r\n,,\r\n,rice,9', "csv") == [
        JobLine(2, "q1", {"questions": [{"text": 'tea, "green"'}]}, None),
        JobLine(5, "5", {"top_k": 9, "questions": [{"text": "rice"}]}, None),
    ]


def test_a_line_s_own_option_wins_over_the_default_of_all_lines() -> None:
    lines = '{"text": "tea"}\n{"text": "tea", "top_k": 3}\n{"text": "tea", "top_k": 5, "fusion": "rrf"}'
    assert [line.fields for line in read(lines, top_k=10, namespace="docs")] == [
        {"top_k": 10, "questions": [{"text": "tea"}]},
        {"top_k": 3, "questions": [{"text": "tea"}]},
        {"fusion": "rrf", "questions": [{"text": "tea"}]},  # 5 is what a request asks without the option
    ]


def test_the_fields_of_a_line_are_a_valid_request_with_the_same_options() -> None:
    line = {"weights": {"bm25": 2}, "include": ["ids"], "filters": {"year": {"gte": 2020}}, "rerank": "off"}
    questions = ["tea", {"text": "rice", "bm25_query": "rice basmati"}]
    line_fields = fields(json.dumps({"questions": questions, **line}))
    assert line_fields is not None
    wanted = make_request(questions, request_id="one", **line)  # type: ignore[arg-type]
    assert make_request(line_fields.pop("questions"), request_id="one", **line_fields) == wanted


def test_a_cell_of_csv_is_a_json_value_if_it_is_one_and_else_a_text() -> None:
    header = "text;filters;branches;rerank;configuration;top_k;needs_retrieval\n"
    row = '12;"{""year"": 2020}";"[""bm25""]";off;2024;7;false'
    assert fields(header + row, "csv") == {
        "filters": {"year": 2020},
        "branches": ["bm25"],
        "rerank": "off",
        "configuration": "2024",
        "top_k": 7,
        "needs_retrieval": False,
        "questions": [{"text": "12"}],
    }


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_csv_may_have_each_of_four_separators_and_a_cell_may_have_several_lines(separator: str) -> None:
    first, second = read(f'id{separator}text\nq1{separator}"green\ntea"\n{separator}rice', "csv")
    assert (first.number, first.id, first.fields) == (2, "q1", {"questions": [{"text": "green\ntea"}]})
    assert (second.number, second.id) == (3, "3")


@pytest.mark.parametrize(("form", "text"), [("jsonl", '{"text": "tea"}\n'), ("csv", "text\ntea\n")])
def test_a_byte_order_mark_and_other_ends_of_lines_change_nothing(form: str, text: str) -> None:
    (plain,) = read(text, form)
    assert read(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode(), form) == [plain]
    assert read(text.rstrip("\n"), form) == [plain]
    assert read("" if form == "jsonl" else "text\n", form) == []


# Ids


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ('{"id": "q", "text": "a"}\n{"id": "q", "text": "c"}', "q"),
        ('{"id": 2, "text": "a"}\n{"text": "b"}', "2"),
    ],
    ids=["given twice", "given and a number"],
)
def test_an_id_that_was_there_before_is_reported_with_both_numbers(lines: str, name: str) -> None:
    first, second = read(lines)
    assert (first.error, second.error) == (None, f"id: '{name}' is also the id of line 1")
    assert (second.number, second.id) == (2, name)


@pytest.mark.parametrize("value", ["", "a" * 257, "a\nb", "\u0000", True, 1.5, ["a"], 10**18])
def test_a_wrong_id_is_refused_and_the_number_takes_its_place(value: Any) -> None:
    wrong, right = read(json.dumps({"id": value, "text": "tea"}) + '\n{"id": "Wie? a/b c#7", "text": "tea"}')
    assert (wrong.id, right.id, right.error) == ("1", "Wie? a/b c#7", None)
    assert str(wrong.error).startswith("id: 1-256 printable characters, or a whole number; not ")
    assert len(str(wrong.error)) < 200


# Wrong lines


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{}", "text: a line has either a `text` or `questions`"),
        ('{"text": "a", "questions": ["b"]}', "text: a line has either a `text` or `questions`"),
        ('{"text": " "}', "text: empty"),
        (f'{{"text": "{"a" * 8_193}"}}', "questions.0.text: String should have at most 8192 characters"),
        (f'{{"questions": {json.dumps(["a"] * 65)}}}', "questions: List should have at most 64 items"),
        ('{"text": "a", "top_k": 0}', "top_k: Input should be greater than or equal to 1"),
        ('{"text": "a", "include": ["context"]}', "include: 'context' needs context_tokens, 1 to 1,000,000"),
        ('{"text": "a", "filters": {"b": {"like": 1}}}', "filters: filter 'b': no operator 'like'"),
        ('{"text": "a", "namespace": "b"}', "namespace: 'b'; every line is asked in the job's namespace, 'docs'"),
        ('{"text": "a"', "not JSON: EOF while parsing an object at column 12"),
        ('["a"]', "not a JSON object"),
        ('{"text": NaN}', "not JSON: "),
        ("[" * 10_000, "not JSON: recursion limit exceeded"),
        (b'{"text": "caf\xe9"}', "not UTF-8: byte 0xe9 at column 14"),
        (b'{"text": "' + b"a" * MAX_LINE_BYTES + b'"}', "longer than 1,000,000 bytes"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_a_wrong_line_names_its_field_and_the_next_line_is_read(line: str | bytes, says: str) -> None:
    raw = line if isinstance(line, bytes) else line.encode()
    wrong, good = read(raw + b'\n{"text": "tea", "namespace": "docs"}', namespace="docs")
    assert str(wrong.error).startswith(says)
    assert (wrong.number, wrong.id, wrong.fields) == (1, "1", None)
    assert (good.number, good.error, good.fields) == (2, None, {"questions": [{"text": "tea"}]})


@pytest.mark.parametrize("option", ["timeout_s", "request_id", "v", "hedge", "on_end", "linked", "speed"])
def test_an_option_that_a_line_cannot_have_is_refused_with_those_that_it_can(option: str) -> None:
    (line,) = read(json.dumps({"text": "a", option: 1}))
    assert line.error == f"{option}: no field of a line; there are: {', '.join(LINE_FIELDS)}"
    assert option not in LINE_FIELDS
    assert {"id", "text", "questions", "top_k", "namespace", "configuration"} < set(LINE_FIELDS)


def test_a_line_with_many_questions_may_not_ask_for_too_many_candidates() -> None:
    (line,) = read(json.dumps({"questions": ["a"] * 64}), depth=1_000)
    assert str(line.error).startswith("depth: 64 questions x")


TOO_LONG = "not CSV: a row has more than 131,072 characters; perhaps a quotation mark is not closed"


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("q1,tea,7", "3 columns, and the header has 2"),
        ('q1,"tea"x', "not CSV: ',' expected after '\"' (read up to line 3 of the file)"),
        ('q1,"' + "tea" * 50_000 + '"', TOO_LONG),
        ('q1,"' + "tea\n" * 50_000, TOO_LONG),
        (b"q1,caf\xe9", "not UTF-8: byte 0xe9 at column 7"),
        (b"q1," + b"a" * MAX_LINE_BYTES, "longer than 1,000,000 bytes"),
        ("q1,", "text: a line has either a `text` or `questions`"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_wrong_row_of_csv_says_what_is_wrong_and_the_next_row_is_read(row: str | bytes, says: str) -> None:
    raw = row if isinstance(row, bytes) else row.encode()
    _, wrong, *_, good = read(b"id,text\nq0,tea\n" + raw + b"\nq2,tea", "csv")
    assert wrong.number == 3
    assert str(wrong.error).startswith(says)
    assert (good.id, good.error) == ("q2", None)


def test_columns_that_are_no_fields_of_a_line_and_an_object_are_its_metadata() -> None:
    (line,) = read("text,mood,page,top_k\ntea,calm,12,3", "csv")
    assert line.fields == {
        "questions": [{"text": "tea"}],
        "top_k": 3,
        "metadata": {"mood": "calm", "page": "12"},
    }
    (line,) = read(json.dumps({"text": "tea", "metadata": {"page": 12}}))
    assert line.fields == {"questions": [{"text": "tea"}], "metadata": {"page": 12}}
    (line,) = read(json.dumps({"text": "tea", "metadata": "calm"}))
    assert line.error == "metadata: an object, not 'calm'"


# Inputs that cannot be used at all


@pytest.mark.parametrize(
    ("text", "form", "says"),
    [
        ("id,question\nq1,tea", "csv", "line 1: the header has no column `text`; it has: id, question"),
        ("", "csv", "line 1: the header has no column `text`; it has: "),
        ("text,text\na,b", "csv", "line 1: two columns have the same name: text, text"),
        ("text,topk\na,3", "csv", "line 1: topk: no field of a line; is top_k meant?"),
        (b"text,caf\xe9\na,b", "csv", "line 1: the header is not UTF-8: byte 0xe9 at column 9"),
        ('{"text": "tea"}'.encode("utf-16"), "jsonl", "line 1: encoded as UTF-16; save the file as UTF-8"),
        ("text\ntea".encode("utf-16"), "csv", "line 1: encoded as UTF-16; save the file as UTF-8"),
    ],
)
def test_an_input_that_cannot_be_read_is_refused_as_a_whole(text: str | bytes, form: str, says: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        read(text, form)
    assert str(raised.value).startswith(says)


@pytest.mark.parametrize(("limit", "what"), [("MAX_LINES", "lines"), ("MAX_JOB_BYTES", "bytes")])
def test_a_too_large_input_is_refused_at_its_limit(
    limit: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, limit, 2)
    with pytest.raises(InvalidRequest, match=f"more than 2 {what}; make several jobs of them"):
        read('{"text": "tea"}\n' * 3)


@pytest.mark.parametrize(
    ("defaults", "says"),
    [
        ({"top_k": 0}, "top_k: Input should be greater than or equal to 1"),
        ({"timeout_s": 5}, "timeout_s: no field of the defaults; there are: correlation_id"),
        ({"text": "tea"}, "text: no field of the defaults"),
        ({"namespace": "No"}, "namespace: a namespace is 1-63 lower-case letters"),
        ({"filters": {"a": object()}}, "filters: filter 'a': takes a text"),
    ],
)
def test_wrong_defaults_are_refused_before_anything_is_read(defaults: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        read_lines(io.BytesIO(), form="jsonl", defaults=defaults)
    assert str(raised.value).startswith(says)


@pytest.mark.parametrize(
    ("name", "form"),
    [("a.jsonl", "jsonl"), ("b/A.NDJSON", "jsonl"), ("a.csv", "csv"), ("a.tsv", "csv"), ("-", "jsonl")],
)
def test_the_format_follows_from_the_name(name: str, form: str) -> None:
    assert form_of(name) == form
    assert form_of(name, "csv") == "csv"
    for wrong in (("a.xlsx", None), ("a", None), (name, "xlsx")):
        with pytest.raises(InvalidRequest, match=r"^format: .*; there are: jsonl, csv$"):
            form_of(*wrong)


# Size


class Stream(io.RawIOBase):
    """Lines that are made while they are read."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines
        self.read_so_far = 0

    def readline(self, size: int | None = -1) -> bytes:
        self.read_so_far += 1
        return next(self._lines, b"")


class Letters(io.RawIOBase):
    remaining = 16_000_000

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = min(self.remaining, len(buffer))
        buffer[:size] = b"a" * size
        self.remaining -= size
        return size


def test_a_line_of_a_gigabyte_is_not_stored_and_a_line_is_yielded_before_the_next_is_read() -> None:
    # 16 MB stand for the gigabyte.
    tracemalloc.start()
    try:
        (line,) = read_lines(io.BufferedReader(Letters()), form="jsonl")
        many = Stream(b'{"text": "question %d"}\n' % number for number in range(2_000))
        for number, read_now in enumerate(read_lines(many, form="jsonl"), start=1):  # type: ignore[arg-type]
            assert read_now.number == many.read_so_far == number
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()
    assert line.error == "longer than 1,000,000 bytes"
