"""The line of a key in a TOML text."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.declaration_file import line_of

TEXT = """\
default = "a"

[stores.local]
kind = "embedded"
options = { path = "x" }

[ branches . "bm25" ]
# weight = 3
  weight=1

[[list]]
name = "n"

[configurations]
rrf.k = 60
"""
LINES = {
    "default": 1,
    "stores local": 3,
    "stores local kind": 4,
    "stores local options path": 5,
    "branches bm25 weight": 9,
    "branches bm25 store": 7,
    "list name": 12,
    "configurations rrf k": 15,
    "nowhere": 1,
}


@pytest.mark.parametrize("path", LINES)
def test_a_key_is_found_by_its_line_or_else_by_the_line_of_its_table(path: str) -> None:
    assert line_of(Path("pipeline.toml"), TEXT, tuple(path.split())) == LINES[path]
