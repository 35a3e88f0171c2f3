"""What `chorale index` is given is indexed, or reported with its reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.not_indexed import NotIndexed
from tests.integration.cli.commands.printed import document, output
from tests.support.command_line import Run
from tests.support.not_indexed import FILES, OUTPUT_MB, file, page_and_picture


def folder_of(folder: Path, *reasons: NotIndexed) -> Path:
    """A good file, and one for each reason."""
    folder.mkdir()
    (folder / "good.txt").write_text("Roses are cut in spring.")
    for reason in reasons:
        FILES[reason](folder)
    return folder


@pytest.mark.slow
def test_each_file_and_row_is_indexed_or_reported_with_its_reason(alone: Run, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "docs", *FILES)
    called = alone("index", str(folder), "--ids=given", "--json", CHORALE_READ_OUTPUT_MB=str(OUTPUT_MB))
    report = document(called, 8)
    assert report["reasons"] == {reason: 1 for reason in NotIndexed if reason in FILES}
    # twice.jsonl has two rows, and every other file one document.
    expected = len(list(folder.iterdir())) + 1
    not_indexed = sum(not NotIndexed(one["reason"]).is_part for one in report["skipped"])
    assert report["added"] + not_indexed == expected == len(FILES) + 2
    for one in report["skipped"]:
        assert Path(one["path"]).parent == folder
        assert one["why"]
        assert one["is_fault"] is NotIndexed(one["reason"]).is_fault


@pytest.mark.slow
def test_a_pdf_and_a_word_file_are_named_where_their_packages_are_not_installed(
    alone: Run, tmp_path: Path
) -> None:
    folder = folder_of(tmp_path / "docs")
    page_and_picture(folder)
    (folder / "letter.docx").write_bytes(b"PK")
    for package in ("pypdfium2", "docx"):
        (tmp_path / f"{package}.py").write_text("raise ImportError")
    report = document(alone("index", str(folder), "--json", PYTHONPATH=str(tmp_path)), 8)
    assert (report["added"], report["reasons"]) == (1, {NotIndexed.MISSING_PACKAGE: 2})


def test_the_exit_code_stays_0_for_what_nobody_wants_to_index(alone: Run, tmp_path: Path) -> None:
    unwanted = [reason for reason in FILES if not reason.is_fault]
    report = document(alone("index", str(folder_of(tmp_path / "docs", *unwanted)), "--json"))
    assert report["reasons"] == dict.fromkeys(unwanted, 1)


def test_ten_names_are_shown_for_a_reason_and_hidden_ones_are_counted(alone: Run, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "docs", NotIndexed.HIDDEN)
    for number in range(12):
        file(f"{number:02}.odt", "PK")(folder)
    called = alone("index", str(folder))
    assert "left out: 12 unknown_format, 1 hidden" in output(called, 8)
    lines = called.stderr.splitlines()
    start = lines.index("unknown_format (12): no reader reads this format")
    names = [f"  {folder}/{number:02}.odt: no reader for .odt: " for number in range(10)]
    assert all(line.startswith(name) for line, name in zip(lines[start + 1 :], names, strict=False))
    assert lines[start + 11 :] == [
        "  … and 2 more; --json lists them all",
        "hidden (1): its name begins with a dot",
    ]


@pytest.mark.slow
def test_documents_whose_files_are_gone_are_counted_until_they_are_pruned(alone: Run, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "docs")
    for name in ("a", "b"):
        (folder / f"{name}.txt").write_text(f"A note on {name}.")
    index = ("index", str(folder))
    assert alone(*index).returncode == 0
    for name in ("a", "b"):
        (folder / f"{name}.txt").unlink()
    again = alone(*index)
    assert again.returncode == 0
    gone = "2 documents of earlier runs are not in this folder any more and stay searchable; --prune deletes them"
    assert gone in again.stderr.splitlines()
    assert document(alone(*index, "--json"))["gone"] == 2
    pruned = document(alone(*index, "--json", "--prune"))
    assert (pruned["deleted"], pruned["gone"]) == (2, 0)
    assert "earlier runs" not in alone(*index).stderr
