"""Which files are read, in which order, and the ids of their documents."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ingest.raw_documents import RawDocument, Skipped
from ingest.read import estimated_documents, read_documents
from models.not_indexed import NotIndexed


def ids(*paths: Path | str, **options: object) -> list[str]:
    items = read_documents(paths, **options)  # type: ignore[arg-type]
    return [item.document_id for item in items if isinstance(item, RawDocument)]


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    for name in ("b.txt", "a/z.md", "a/b.txt", "B.txt", ".hidden/x.txt", ".x.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("text of " + name)
    return folder


def test_folders_are_walked_in_order_without_hidden_files(docs: Path) -> None:
    assert ids(docs) == ["docs/B.txt", "docs/a/b.txt", "docs/a/z.md", "docs/b.txt"]


def test_ids_are_the_same_from_every_working_directory(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from_afar = ids(docs)
    monkeypatch.chdir(docs)
    assert ids(".") == from_afar
    monkeypatch.chdir(docs / "a")
    assert ids("..") == ids("../../docs/") == from_afar


def test_a_source_may_be_named_and_a_file_given_by_itself_is_its_own_source(docs: Path) -> None:
    assert ids(docs, source="handbook")[0] == "handbook/B.txt"
    assert ids(docs / "b.txt") == ["b.txt"]
    assert ids(docs / "b.txt", source="docs") == ["docs/b.txt"]


def test_ids_of_records_consist_of_file_and_id_or_line(tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text('{"_id": "x", "text": "a"}\n\n{"text": "b"}\n{"id": 7, "text": "c"}\n')
    assert ids(tmp_path, source="s") == ["s/c.jsonl#x", "s/c.jsonl#line-3", "s/c.jsonl#7"]
    assert ids(tmp_path / "c.jsonl") == ["c.jsonl#x", "c.jsonl#line-3", "c.jsonl#7"]
    assert ids(tmp_path, source="s", ids="given") == ["x", "s/c.jsonl#line-3", "7"]


def test_an_id_has_one_unicode_form_and_a_name_that_is_not_utf_8_is_reported(tmp_path: Path) -> None:
    (tmp_path / "cafe\u0301.txt").write_text("x")
    assert ids(tmp_path, source="s") == ["s/caf\u00e9.txt"]
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("x")
    (skipped,) = (item for item in read_documents([tmp_path]) if isinstance(item, Skipped))
    assert "not UTF-8" in skipped.why
    assert skipped.path.encode()


def test_paths_of_two_sources_need_a_name(docs: Path) -> None:
    with pytest.raises(ValueError, match="name one source for all with `--source`"):
        read_documents([docs / "a", docs / "b.txt"])
    assert ids(docs / "a", docs / "b.txt", source="s") == ["s/b.txt", "s/z.md", "s/b.txt"]


def test_an_invalid_source_path_or_field_is_refused_before_anything_is_read(docs: Path) -> None:
    for source in ("", " ", "a/b", "a\nb"):
        with pytest.raises(ValueError, match=r"source|control characters"):
            read_documents([docs], source=source)
    with pytest.raises(FileNotFoundError, match=r"nowhere does not exist"):
        read_documents([docs, docs / "nowhere"], source="s")
    with pytest.raises(ValueError, match=r"no field 'date' to map; there are: id, title, text, source_type"):
        read_documents([docs], fields={"date": "year"})


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("letter.odt", "no reader for .odt: convert it to Markdown, for example with pandoc"),
        ("logo.PNG", "no reader for .PNG: write its text with an OCR program"),
        ("notes.xyz", "no reader for .xyz; there are: .txt, "),
        ("Makefile", "no reader for names without a suffix; there are: .txt, "),
    ],
)
def test_a_file_without_a_reader_is_named_with_what_would_make_it_readable(
    docs: Path, name: str, why: str
) -> None:
    (docs / name).write_bytes(b"\x89")
    in_folder = [item for item in read_documents([docs]) if isinstance(item, Skipped) and item.is_fault]
    by_name = list(read_documents([docs / name]))
    assert in_folder == by_name
    (skipped,) = in_folder
    assert (skipped.path, skipped.reason, skipped.spares) == (
        str(docs / name),
        NotIndexed.UNKNOWN_FORMAT,
        None,
    )
    assert skipped.why.startswith(why)


def test_hidden_files_and_folders_are_reported_once_each(docs: Path) -> None:
    hidden = [item for item in read_documents([docs]) if isinstance(item, Skipped)]
    assert [(item.path, item.reason, item.is_fault) for item in hidden] == [
        (str(docs / ".hidden"), NotIndexed.HIDDEN, False),
        (str(docs / ".x.txt"), NotIndexed.HIDDEN, False),
    ]


def test_the_number_of_documents_is_estimated_by_files_and_lines(docs: Path) -> None:
    (docs / "c.jsonl").write_text('{"text": "x"}\n' * 5)
    (docs / "logo.png").write_bytes(b"\n")
    assert estimated_documents([docs]) == 4 + 5
