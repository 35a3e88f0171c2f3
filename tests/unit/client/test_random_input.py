"""Random options and random lines of a job: each is taken, or refused by a named error."""

from __future__ import annotations

import csv
import io
import json
from contextlib import suppress
from typing import Any

import pytest
from chorale_client import InvalidRequest, make_request
from chorale_client.jobs.input_stats import InputStats, messages
from chorale_client.jobs.lines import LINE_FIELDS, read_lines
from chorale_client.request_factory import request_json
from hypothesis import strategies as st

from tests.support.attacks.random_input import FEW, JSON, MANY, REQUESTS, TEXT, some_of, with_random

pytestmark = pytest.mark.parametrize("examples", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])

LINES = st.lists(
    st.one_of(
        st.binary(max_size=30),
        st.one_of(some_of(dict.fromkeys(LINE_FIELDS, JSON)), JSON).map(lambda row: json.dumps(row).encode()),
        st.fixed_dictionaries({"text": TEXT}, optional={"id": JSON, "filters": JSON}).map(
            lambda row: json.dumps(row, ensure_ascii=False).encode(errors="surrogatepass")
        ),
    ),
    max_size=6,
)


def rows_of_csv(rows: list[list[str]]) -> bytes:
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(rows)
    return written.getvalue().encode(errors="surrogatepass")


TABLES = st.one_of(
    st.binary(max_size=60),
    st.builds(
        lambda header, rows: rows_of_csv([["text", *header], *rows]),
        st.lists(st.sampled_from(LINE_FIELDS), max_size=2),
        st.lists(st.lists(TEXT, max_size=4), max_size=4),
    ),
)


def ask(options: dict[str, Any]) -> None:
    with suppress(InvalidRequest):
        request = make_request(**options)
        assert json.loads(request_json(request))["questions"]


def read(form: str, content: bytes) -> None:
    with suppress(InvalidRequest):
        stats = InputStats(refuses=False)
        for _ in messages(stats.passed(read_lines(io.BytesIO(content), form=form))):
            pass
        stats.check()


def test_options_of_a_request_are_taken_or_refused_by_name(examples: int) -> None:
    with_random(REQUESTS, ask, examples)


def test_lines_of_json_are_taken_or_refused_by_name(examples: int) -> None:
    with_random(LINES, lambda lines: read("jsonl", b"\n".join(lines)), examples)


def test_rows_of_csv_are_taken_or_refused_by_name(examples: int) -> None:
    with_random(TABLES, lambda table: read("csv", table), examples)
