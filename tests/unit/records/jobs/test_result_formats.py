"""No line of a job disappears from its results, and no format needs them in memory at once."""

from __future__ import annotations

import csv
import io
import itertools
import json
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from records.jobs import result_formats
from records.jobs.job import SEGMENT_LINES, unanswered
from records.jobs.result_formats import CSV_COLUMNS, FORMATS, ParquetMissing, UnknownFormat, writer_of


def hit(rank: int, document_id: str, **more: Any) -> dict[str, Any]:
    ids = {"document_id": document_id, "passage_id": f"{document_id}#0"}
    return {"rank": rank, **ids, "score": 1 / (60 + rank), "score_kind": "rrf", **more}


def answered(line: int, identifier: str, status: str = "complete", **answer: Any) -> dict[str, Any]:
    result = {**unanswered(status, ""), "error": None, "coverage": 1.0}
    return {"line": line, "id": identifier, **result, **answer}


TEA = hit(
    1,
    "shop/green tea.md",
    title='Tea, "green"',
    snippet={"text": "Grüner Tee\nfrom Japan", "highlights": [[0, 6]]},
    found_by=["bm25", "vector"],
    url="https://x.test/tea",
    metadata={"year": 2020},
    rerank={"stage": "reranked", "score": 0.5},
)
RICE = hit(2, "rice")
DEGRADED = [{"where": "search.vector", "reason": "timeout", "detail": "after 2 s"}]

LINES = [
    answered(1, "q1", hits=[TEA, RICE], text="tea?", metadata={"team": "shop"}),
    answered(3, "two of them", "degraded", degraded=DEGRADED, warnings=["slow"])
    | {"questions": [{"text": "rice?", "status": "complete", "coverage": 1.0, "hits": [RICE]}, {"text": "and tea?", "status": "failed", "coverage": 0.0, "hits": []}]},
    {"line": 4, "id": "4", **unanswered("refused", "text: empty")},
    {"line": 5, "id": "q5", **unanswered("expired", "the job's deadline came first")},
]  # fmt: skip
del LINES[1]["hits"]


def written(form: str, lines: Any = LINES) -> bytes:
    return b"".join(writer_of(form)(lines))


def test_jsonl_has_every_line_as_it_is() -> None:
    assert [json.loads(line) for line in written("jsonl").splitlines()] == LINES


def test_csv_has_a_row_for_each_hit_and_one_for_an_answer_without_hits() -> None:
    header, *rows = csv.reader(io.StringIO(written("csv").decode(), newline=""))
    assert tuple(header) == CSV_COLUMNS
    assert rows == [
        ["1", "q1", "1", "complete", "1", "shop/green tea.md", str(1 / 61), 'Tea, "green"', "Grüner Tee\nfrom Japan", "", "tea?", '{"team":"shop"}'],
        ["1", "q1", "1", "complete", "2", "rice", str(1 / 62), "", "", "", "tea?", '{"team":"shop"}'],
        ["3", "two of them", "1", "complete", "2", "rice", str(1 / 62), "", "", "", "rice?", ""],
        ["3", "two of them", "2", "failed", "", "", "", "", "", "", "and tea?", ""],
        ["4", "4", "1", "refused", "", "", "", "", "", "text: empty", "", ""],
        ["5", "q5", "1", "expired", "", "", "", "", "", "the job's deadline came first", "", ""],
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_text_that_a_spreadsheet_would_compute_is_a_text_in_csv_and_unchanged_in_csv_raw(text: str) -> None:
    hit = {"rank": 1, "document_id": text, "score": -0.5, "title": text, "snippet": {"text": text}}
    line = {"line": 1, "id": text, "status": "complete", "hits": [hit], "error": text}

    def cells(form: str) -> list[str]:
        _, row = csv.reader(io.StringIO(written(form, [line]).decode(), newline=""))
        return row

    ours = ["1", "complete", "1"]
    safe = f"'{text}"
    assert cells("csv") == ["1", safe, *ours, safe, "-0.5", safe, safe, safe, "", ""]
    assert cells("csv-raw") == ["1", text, *ours, text, "-0.5", text, text, text, "", ""]


def test_trec_has_a_row_for_each_hit_in_six_words_which_its_own_tool_reads() -> None:
    assert written("trec").decode().splitlines() == [
        f"q1 Q0 shop/green%20tea.md 1 {1 / 61!r} chorale",
        f"q1 Q0 rice 2 {1 / 62!r} chorale",
        f"two%20of%20them.1 Q0 rice 2 {1 / 62!r} chorale",
    ]
    ir_measures = pytest.importorskip("ir_measures")
    first, *_ = ir_measures.read_trec_run(written("trec").decode())
    assert (first.query_id, first.doc_id) == ("q1", "shop/green%20tea.md")


def test_parquet_has_a_row_for_each_line_with_its_hits_as_structs() -> None:
    table = parquet(LINES)
    first, several, refused, expired = table.to_pylist()
    assert table.column("line").to_pylist() == [1, 3, 4, 5]
    assert {name: value for name, value in first["hits"][0].items() if value is not None} == {
        **{name: value for name, value in TEA.items() if name != "rerank"},
        "snippet": "Grüner Tee\nfrom Japan",
        "metadata": '{"year":2020}',
        "more": '{"rerank":{"stage":"reranked","score":0.5}}',
    }
    assert [hit["document_id"] for hit in first["hits"]] == ["shop/green tea.md", "rice"]
    assert (several["hits"], several["degraded"], several["warnings"]) == (None, DEGRADED, ["slow"])
    pages = [(page["status"], len(page["hits"])) for page in several["questions"]]
    assert pages == [("complete", 1), ("failed", 0)]
    assert (refused["status"], refused["error"], refused["hits"]) == ("refused", "text: empty", [])
    assert (expired["status"], expired["coverage"], expired["deduplicated"]) == ("expired", 0.0, False)


def parquet(lines: list[dict[str, Any]]) -> pa.Table:
    return pq.read_table(io.BytesIO(written("parquet", lines)))


def test_parquet_has_what_an_answer_says_beside_its_hits() -> None:
    context = {"text": "[1] Tea", "tokens": 4, "citations": [], "left_out": 0}
    page: dict[str, Any] = {"status": "complete", "coverage": 1.0, "hits": [], "removed": {"group_by": 2}}
    page |= {"context": context, "confidence": 0.25, "abstained": True}
    lines = [answered(1, "a", **page), answered(2, "b") | {"questions": [page]}]
    first, second = parquet(lines).to_pylist()
    for answer in (first, second["questions"][0]):
        assert (json.loads(answer["removed"]), json.loads(answer["context"])) == ({"group_by": 2}, context)
        assert (answer["confidence"], answer["abstained"], answer["signals"]) == (0.25, True, None)


@pytest.mark.parametrize("form", FORMATS)
def test_a_job_without_results_gives_a_valid_file(form: str) -> None:
    empty = written(form, [])
    if form == "parquet":
        assert pq.read_table(io.BytesIO(empty)).num_rows == 0
    else:
        header = ",".join(CSV_COLUMNS).encode() + b"\r\n"
        assert empty == (header if form.startswith("csv") else b"")


def test_a_row_group_of_parquet_ends_at_so_many_lines_or_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [answered(number, str(number), hits=[RICE]) for number in range(1, 301)]

    def row_groups() -> list[int]:
        metadata = pq.ParquetFile(io.BytesIO(written("parquet", lines))).metadata
        return [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]

    monkeypatch.setattr(result_formats, "ROW_GROUP_LINES", 128)
    assert row_groups() == [128, 128, 44]
    monkeypatch.setattr(result_formats, "ROW_GROUP_BYTES", 100)
    assert row_groups() == [64, 64, 64, 64, 44]


class Line(dict[str, Any]):
    """A dict that can be referenced weakly."""

    __hash__ = object.__hash__  # type: ignore[assignment]


@pytest.mark.parametrize("form", FORMATS)
def test_at_most_two_segments_are_in_memory_and_texts_are_written_line_by_line(form: str) -> None:
    alive: weakref.WeakSet[Line] = weakref.WeakSet()
    most = number = 0

    def lines() -> Iterator[dict[str, Any]]:
        nonlocal most, number
        for number in range(1, 501):
            line = Line(answered(number, str(number), hits=[TEA]))
            alive.add(line)
            most = max(most, len(alive))
            yield line

    parts = writer_of(form)(lines())
    if form in ("jsonl", "csv"):
        assert [number for _ in itertools.islice(parts, 8)] == [*range(1, 9)]
    assert b"".join(parts)
    assert most <= 2 * SEGMENT_LINES


def test_an_unknown_format_and_a_missing_pyarrow_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownFormat, match=r"^format: 'xlsx'; there are: jsonl, csv, csv-raw, .*"):
        writer_of("xlsx")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ParquetMissing, match=r"`make parquet` or `pip install pyarrow` installs it"):
        next(writer_of("parquet")(iter(LINES)))
