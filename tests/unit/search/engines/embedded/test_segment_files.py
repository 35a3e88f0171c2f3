"""Noticing changes of the files of an open lexical index."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from search.engines.embedded.lexical_index import changed_file, create_index, segment_files, write_index


@pytest.fixture
def index(tmp_path: Path) -> Path:
    folder = tmp_path / "default.1.0"
    create_index(folder)
    write_index(folder, delete=(), add=[(1, "bread"), (2, "butter")])
    return folder


def overwrite(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.write(b"?")


def replace(file: Path) -> None:
    junk = file.with_name("junk")
    junk.write_bytes(b"junk")
    junk.replace(file)


@pytest.mark.parametrize(
    ("change", "is_noticed"),
    [(lambda file: os.truncate(file, 0), True), (overwrite, True), (replace, False), (Path.unlink, False)],
)
def test_a_file_has_changed_if_its_bytes_changed_in_place(
    index: Path, change: Callable[[Path], None], is_noticed: bool
) -> None:
    """A reader keeps a replaced or deleted file open, so for the reader nothing has changed."""
    files = segment_files(index)
    write_index(index, delete=[1], add=[(3, "jam")])  # a later commit changes no file of an earlier one
    file = next(file for file in files if file.suffix == ".term")
    assert changed_file(files) is None
    change(file)
    assert changed_file(files) == (file if is_noticed else None)
