"""Noticing changes of the files of an open lexical index."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from search.embedded.lexical_index import create_index, write_index
from search.embedded.segment_files import changed_file, segment_files


@pytest.fixture
def index(tmp_path: Path) -> Path:
    folder = tmp_path / "default.1.0"
    create_index(folder)
    write_index(folder, "en", delete=(), add=[(1, "bread"), (2, "butter")])
    return folder


def a_segment_file(index: Path) -> Path:
    return next(index.glob("*.term"))


def test_untouched_files_have_not_changed(index: Path) -> None:
    assert changed_file(segment_files(index)) is None


def test_all_files_of_the_segments_are_watched_and_no_others(index: Path) -> None:
    watched = {path.name for path in segment_files(index)}
    assert {Path(name).suffix for name in watched} == {
        ".fast",
        ".fieldnorm",
        ".idx",
        ".pos",
        ".store",
        ".term",
    }
    assert len({Path(name).stem for name in watched}) == 1


def test_a_truncated_file_has_changed(index: Path) -> None:
    files, file = segment_files(index), a_segment_file(index)
    os.truncate(file, 0)
    assert changed_file(files) == file


def test_an_overwritten_file_has_changed(index: Path) -> None:
    files, file = segment_files(index), a_segment_file(index)
    with file.open("r+b") as opened:
        opened.write(b"?")
    assert changed_file(files) == file


def test_a_deleted_or_replaced_file_counts_as_unchanged(index: Path) -> None:
    files, file = segment_files(index), a_segment_file(index)
    junk = index / "junk"
    junk.write_bytes(b"junk")
    junk.replace(file)
    assert changed_file(files) is None
    shutil.rmtree(index)
    assert changed_file(files) is None


def test_a_later_commit_changes_no_file_of_an_earlier_one(index: Path) -> None:
    files = segment_files(index)
    write_index(index, "en", delete=[1], add=[(3, "jam")])
    assert changed_file(files) is None
