"""The outline of a file is found by the process that parses it, within its limits, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import ingest.headings
from ingest.raw_documents import RawDocument
from ingest.read import read_documents
from ingest.split import Splitter
from tests.support.models.hashing_embedder import HashingEmbedder

WORDS = "word " * 20
TITLE = "a very long title " * 20
FILES = {
    "a.md": f"---\nlang: en\n---\n\ufeff# Guide\x07\r\n\r\n{WORDS}\r\n\r\n## One\r\n\r\n{WORDS}\n\n### Two\n\n{WORDS}",
    "long.md": f"---\ntitle: {TITLE}\n---\n# Guide\n\n{WORDS}\n\n## One\n\n{WORDS}",
    "a.html": f"<title>Guide</title><h1>Guide</h1><p>{WORDS}</p><h2>One</h2><p>{WORDS}</p>",
    "a.rst": f"Guide\n=====\n\n{WORDS}\n\nOne\n---\n\n{WORDS}\n",
    "a.jsonl": f'{{"id": "x", "title": "Guide", "text": "{WORDS}\\r\\n## One\\n\\n{WORDS}"}}',
}


@pytest.mark.parametrize("name", FILES)
def test_splitting_a_file_s_document_parses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / name).write_text(FILES[name], newline="")
    (document,) = read_documents([tmp_path], source="s")
    assert isinstance(document, RawDocument)
    splitter = Splitter(HashingEmbedder().count_pieces, max_pieces=32)
    expected = splitter.split(replace(document, headings=None))
    assert {passage.heading.split(" > ")[-1] for passage in expected} >= {"One"}

    monkeypatch.setattr(ingest.headings, "headings_of", None)
    assert splitter.split(document) == expected


def test_a_document_without_a_title_has_that_of_its_first_heading_of_level_1(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("## No\n\n# Yes *sir*\n\n# Late")
    (tmp_path / "b.html").write_text("<h1>Yes</h1>")
    (tmp_path / "c.md").write_text("## No")
    documents = read_documents([tmp_path], source="s")
    titles = [document.title for document in documents if isinstance(document, RawDocument)]
    assert titles == ["Yes sir", "Yes", "c"]
