"""Documents and ids that another program hands in."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

import pytest
from chorale_client.documents import document_bytes
from chorale_client.limits import MAX_DELETED, MAX_DOCUMENT_BYTES, MAX_DOCUMENTS, MAX_METADATA_BYTES

from ingest.raw_documents import RawDocument, Skipped
from ingest.read import last_of_each, read_ids, read_rows

COMPOSED = "café menu"
DECOMPOSED = unicodedata.normalize("NFD", COMPOSED)


def rows_of_sizes(*sizes: int) -> list[dict[str, Any]]:
    """Documents with this many bytes as JSON, mostly letters of two bytes."""
    rows = []
    for number, size in enumerate(sizes):
        row = {"id": str(number), "text": ""}
        letters, rest = divmod(size - document_bytes(row), 2)
        rows.append({**row, "text": "é" * letters + "e" * rest})
    return rows


@pytest.mark.parametrize(
    ("value", "page_starts", "metadata"),
    [
        ([0, 4], (0, 4), {}),
        ([4, 0], (), {"page_starts": [4, 0]}),
        ("two", (), {"page_starts": "two"}),
    ],
)
def test_a_document_may_say_where_its_pages_start(
    value: object, page_starts: Sequence[int], metadata: dict[str, object]
) -> None:
    (document,) = read_rows([{"id": "a", "text": "one two", "page_starts": value}], source="task")
    assert isinstance(document, RawDocument)
    assert (document.page_starts, document.metadata) == (page_starts, metadata)


def test_only_the_document_that_is_too_large_is_skipped() -> None:
    # {"id": "a", "text": "é"}: 24 characters, one of them of two bytes.
    assert document_bytes({"id": "a", "text": "é"}) == 25
    rows = rows_of_sizes(100, MAX_DOCUMENT_BYTES + 1, MAX_DOCUMENT_BYTES)
    small, skipped, largest = read_rows(rows, source="task")
    assert isinstance(small, RawDocument)
    assert isinstance(largest, RawDocument)
    assert (small.document_id, largest.document_id) == ("0", "2")
    assert isinstance(skipped, Skipped)
    assert str(skipped) == (
        "document 2: 16,777,217 bytes; at most 16,777,216 are allowed, so hand it in as several documents"
    )
    assert skipped.is_fault


def test_the_last_row_with_an_id_is_kept_and_the_others_are_reported() -> None:
    texts = [(DECOMPOSED, "first"), ("other", "other"), (f" {COMPOSED} ", "second"), (COMPOSED, "third")]
    rows = [*({"id": id_, "text": text} for id_, text in texts), {"id": COMPOSED}]
    items = last_of_each(read_rows(rows, source="task"))
    documents = [(item.document_id, item.text) for item in items if isinstance(item, RawDocument)]
    assert documents == [("other", "other"), (COMPOSED, "third")]
    assert [(str(item), item.is_fault) for item in items if isinstance(item, Skipped)] == [
        ("document 1: document 4 has the same id and replaces it", False),
        ("document 3: document 4 has the same id and replaces it", False),
        ("document 5: no text: 'text' and 'title' are missing or empty", True),
    ]


def test_ids_are_normalised_like_those_of_documents() -> None:
    values = [DECOMPOSED, " padded ", 7]
    documents = read_rows([{"id": id_, "text": "x"} for id_ in values], source="task")
    ids = [COMPOSED, "padded", "7"]
    assert [item.document_id for item in documents if isinstance(item, RawDocument)] == ids
    assert read_ids(values) == (ids, [])


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("", "the id is empty"),
        (None, "the id is empty"),
        ("a\nb", "control characters"),
        ("i" * 481, "at most 480 are allowed"),
        (1.5, "the id is a number, not a text"),
        (["a"], "the id is a list, not a text"),
    ],
)
def test_an_invalid_id_is_left_out_with_the_reason(wrong: object, why: str) -> None:
    ids, (skipped,) = read_ids(["first", wrong, "last"])
    assert ids == ["first", "last"]
    assert skipped.path == "id 2"
    assert why in skipped.why


def test_a_message_of_a_program_without_our_client_has_the_same_limits() -> None:
    with pytest.raises(ValueError, match=r"^documents: 1,001 in one message; at most 1,000 are allowed$"):
        list(read_rows([{"id": "a", "text": "b"}] * (MAX_DOCUMENTS + 1), source="task"))
    with pytest.raises(ValueError, match=r"^ids: 10,001 in one message; at most 10,000 are allowed$"):
        read_ids(["a"] * (MAX_DELETED + 1))
    with pytest.raises(ValueError, match=r"^ids: a list, even of one; not a str$"):
        read_ids("12")
    rows = [{"id": "a", "text": "b", "metadata": {"c": "d" * MAX_METADATA_BYTES}}, {"id": "b", "text": "c"}]
    skipped, document = read_rows(rows, source="task")
    assert str(skipped).startswith("document 1: metadata: 262,")
    assert isinstance(document, RawDocument)


@pytest.mark.parametrize(
    ("fields", "markup", "metadata"),
    [
        ({}, "plain", {}),
        ({"markup": "markdown"}, "markdown", {}),
        ({"markup": "plain", "text": "## Roses\n\nare cut"}, "plain", {}),
        ({"text": "## Roses\n\nare cut"}, "markdown", {}),
        # The caller's own field with the same name.
        ({"markup": "wiki"}, "plain", {"markup": "wiki"}),
    ],
)
def test_markup_is_taken_from_the_row_or_else_guessed_from_the_text(
    fields: dict[str, Any], markup: str, metadata: dict[str, Any]
) -> None:
    (document,) = read_rows([{"id": "a", "text": "Roses are cut.", **fields}], source="task")
    assert isinstance(document, RawDocument)
    assert (document.markup, document.metadata) == (markup, metadata)
