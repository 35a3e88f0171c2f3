"""What counts as the same document."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ingest.document_ids import content_hash, revision_hash
from ingest.raw_documents import RawDocument

DOCUMENT = RawDocument("s/a", "s", "Title", "Text", {"b": 1, "a": [2]}, "plain", "/x/a", 3)


@pytest.mark.parametrize("copy", ["straße  FIVE", "STRASSE\n\nfive", " strasse \uff46ive\t"])
def test_case_white_space_and_compatible_characters_do_not_change_the_content_hash(copy: str) -> None:
    assert content_hash("T", copy) == content_hash("t", "strasse five")


def test_another_word_changes_the_content_hash() -> None:
    assert content_hash("T", "one two") != content_hash("T", "one three")
    assert content_hash("ab", "c") != content_hash("a", "bc")


@pytest.mark.parametrize(
    "change",
    [{"title": "title"}, {"text": "Text "}, {"metadata": {"b": 2, "a": [2]}}, {"markup": "markdown"}],
)
def test_all_that_was_read_is_part_of_the_revision_but_not_its_path_and_order(change: dict[str, Any]) -> None:
    assert revision_hash(replace(DOCUMENT, **change)) != revision_hash(DOCUMENT)
    moved = replace(DOCUMENT, path="/y/a", line=9, metadata={"a": [2], "b": 1})
    assert revision_hash(moved) == revision_hash(DOCUMENT)
