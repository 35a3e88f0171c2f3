"""Rows and objects that have no field for the text are read as `name: value` lines, as a person would read them out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ingest.raw_documents import RawDocument, Skipped
from models.not_indexed import NotIndexed
from tests.support.reading import read_all, written


def read(folder: Path, name: str, content: str, **options: Any) -> tuple[list[RawDocument], list[Skipped]]:
    return read_all(written(folder, name, content), **options)


def test_a_row_of_csv_without_a_text_is_its_cells_with_the_names_of_their_columns(tmp_path: Path) -> None:
    content = 'part,price,in stock,note\nAB-0042,"1,299.00",true,\nAB-0043,0.50,false,"for the\nsmall pump"\n'
    (first, second), notes = read(tmp_path, "parts.csv", content)
    assert notes == []
    assert first.text == "part: AB-0042\nprice: 1,299.00\nin stock: true"
    assert second.text == "part: AB-0043\nprice: 0.50\nin stock: false\nnote: for the small pump"
    assert (first.markup, first.document_id) == ("plain", "s/parts.csv#line-2")
    assert first.metadata == {"part": "AB-0042", "price": "1,299.00", "in stock": True}


def test_the_title_and_the_id_of_a_row_stay_what_they_are(tmp_path: Path) -> None:
    (document,), _ = read(tmp_path, "films.csv", "id;title;year\nf1;Metropolis;1927\n", ids="given")
    assert (document.document_id, document.title, document.text) == ("f1", "Metropolis", "id: f1\nyear: 1927")
    assert document.metadata == {"year": 1927}
    (document,), _ = read(tmp_path, "films.csv", "film,year\nMetropolis,1927\n", fields={"title": "film"})
    assert (document.title, document.text) == ("Metropolis", "year: 1927")


def test_columns_without_a_name_or_with_the_same_name_are_read_too(tmp_path: Path) -> None:
    (document,), _ = read(tmp_path, "c.csv", ",city,phone,phone\n7,Bonn,0228,0151\n")
    assert document.text == "city: Bonn\nphone 1: 0228\nphone 2: 0151\n7"
    assert document.metadata == {"city": "Bonn", "phone 1": "0228", "phone 2": "0151"}


def test_empty_cells_at_the_end_of_a_row_may_be_missing_or_too_many(tmp_path: Path) -> None:
    documents, notes = read(tmp_path, "c.csv", "version,name,end\n6,squeeze\n7,wheezy,2016,,\n8,a,b,c\n")
    assert [document.text for document in documents] == [
        "version: 6\nname: squeeze",
        "version: 7\nname: wheezy\nend: 2016",
    ]
    assert [(note.line, note.why) for note in notes] == [(4, "4 columns, and 3 in the header")]


def test_a_csv_that_begins_with_a_number_has_no_header(tmp_path: Path) -> None:
    documents, _ = read(tmp_path, "c.csv", "1,hello\n2,world\n")
    assert [document.text for document in documents] == ["1, hello", "2, world"]
    (document,), _ = read(tmp_path, "c.csv", "country,2019\nPeru,12\n")
    assert document.text == "country: Peru\n2019: 12"


def test_a_column_that_the_caller_names_for_the_text_must_be_there(tmp_path: Path) -> None:
    _, (refused,) = read(tmp_path, "c.csv", "question,answers\na,b\n", fields={"text": "answer"})
    assert refused.reason is NotIndexed.MALFORMED
    assert "has no column 'answer'; it has: 'question', 'answers'" in refused.why
    _, (refused,) = read(tmp_path, "c.json", '{"question": "a", "answers": "b"}', fields={"text": "answer"})
    assert refused.why == "no text: 'answer' and 'title' are missing or empty"


def test_a_row_with_an_empty_text_stays_without_text(tmp_path: Path) -> None:
    documents, (refused,) = read(tmp_path, "c.csv", "text,year\n,1927\n")
    assert (documents, refused.reason) == ([], NotIndexed.NO_TEXT)
    documents, (refused,) = read(tmp_path, "c.jsonl", '{"text": "", "year": 1927}')
    assert (documents, refused.reason) == ([], NotIndexed.NO_TEXT)


PUMP = {
    "name": "Pump",
    "price": 12.0,
    "size": {"width": 3, "unit": "cm"},
    "tags": ["small", "red"],
    "parts": [{"no": "A1", "is_spare": True}, {"no": "B2", "is_spare": None}],
    "manual": "long " * 300,
}
PUMP_LINES = (
    "name: Pump\nprice: 12\nsize.width: 3\nsize.unit: cm\ntags: small, red\n"
    f"parts.no: A1\nparts.is_spare: true\nparts.no: B2\nmanual: {'long ' * 300}"
).rstrip()


@pytest.mark.parametrize(
    ("name", "content", "ids"),
    [
        ("pump.json", json.dumps(PUMP, indent=2), ["s/pump.json"]),
        ("pumps.json", json.dumps([PUMP, PUMP]), ["s/pumps.json#line-1", "s/pumps.json#line-2"]),
        ("pumps.jsonl", f"{json.dumps(PUMP)}\n", ["s/pumps.jsonl#line-1"]),
    ],
)
def test_an_object_without_a_text_is_its_fields_as_lines(
    tmp_path: Path, name: str, content: str, ids: list[str]
) -> None:
    documents, notes = read(tmp_path, name, content)
    assert notes == []
    assert [document.document_id for document in documents] == ids
    assert {document.text for document in documents} == {PUMP_LINES}
    # What is long or has fields of its own is in the text alone.
    assert documents[0].metadata == {"name": "Pump", "price": 12.0, "tags": ["small", "red"]}


def test_an_object_with_a_text_is_read_as_a_line_of_json_lines(tmp_path: Path) -> None:
    row = {"id": 7, "title": "Tea", "text": "## Green\n\nBrew it.", "year": 2026}
    (line,), _ = read(tmp_path, "a.jsonl", json.dumps(row))
    (alone,), _ = read(tmp_path, "a.json", json.dumps(row, indent=1))
    (listed,), _ = read(tmp_path, "b.json", json.dumps([row], indent=1))
    for document in (line, alone, listed):
        assert (document.title, document.text, document.markup) == ("Tea", row["text"], "markdown")
        assert document.metadata == {"year": 2026}
        assert document.document_id.endswith("#7")
    (with_own_id,), _ = read(tmp_path, "a.json", json.dumps(row), ids="given")
    assert with_own_id.document_id == "7"


def test_what_is_no_object_in_a_list_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    (document,), (note,) = read(tmp_path, "a.json", '[{"text": "Brew it."}, 3]')
    assert (document.text, note.reason, note.why) == (
        "Brew it.",
        NotIndexed.MALFORMED,
        "item 2 is not a JSON object",
    )


def test_a_json_document_that_is_no_object_is_its_values(tmp_path: Path) -> None:
    (document,), _ = read(tmp_path, "colours.json", '["Crimson", "Emerald", 3]')
    assert (document.title, document.text) == ("colours", "Crimson, Emerald, 3")


@pytest.mark.parametrize(("content", "why"), [("{", "not JSON"), ('{"a": NaN}', "NaN is not a JSON number")])
def test_a_damaged_json_document_is_refused(tmp_path: Path, content: str, why: str) -> None:
    documents, (refused,) = read(tmp_path, "a.json", content)
    assert (documents, refused.reason) == ([], NotIndexed.MALFORMED)
    assert why in refused.why
