"""The line of a key in a TOML text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from config import declaration_file
from config.declaration_file import line_of, read_table
from config.pipeline_reader import declared_queues
from models.errors import WrongDeclaration
from tasks.wiring.pipeline import load_pipeline
from tests.support.pipelines.pipeline_files import BM25_ALONE

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


def test_dots_in_texts_and_comments_are_no_parts_of_a_key() -> None:
    dots = "a." * 40
    text = f'a = "{dots}"  # {dots}\nb = """\n{dots}"""\nc = [\'{dots}\', 1.5]'
    assert read_table(Path("pipeline.toml"), text) == {"a": dots, "b": dots, "c": [dots, 1.5]}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"a = {'[' * 5_000}", "nested too deeply"),
        (f"a = {'{a = ' * 5_000}", "nested too deeply"),
        (f"{'a.' * 40_000}a = 1", "a key has more than 32 parts"),
        (f"b = {{ {'a . ' * 32}'a' = 1 }}", "a key has more than 32 parts"),
        (f"a = {'9' * 5_000}", "not valid TOML: Exceeds the limit"),
        ("#" * 100_001, "has 100,001 characters, of at most 100,000"),
        ('\\"' * 50_000, "not valid TOML: Invalid statement"),
        ("'" * 99_999, "not valid TOML: "),
        (f"a: {'[' * 5_000}", "not valid YAML: nested deeper than 50 levels"),
        (f"a: [{'a,' * 9_998}]", "has 20,001 characters, of at most 20,000"),
    ],
    ids=[
        "brackets",
        "tables",
        "dots",
        "dots in a table",
        "digits",
        "size",
        "quotes",
        "apostrophes",
        "brackets in YAML",
        "YAML",
    ],
)
def test_a_file_that_is_deep_or_huge_is_refused_by_all_that_read_it(
    tmp_path: Path, text: str, why: str
) -> None:
    file = tmp_path / ("pipeline.yaml" if text.startswith("a:") else "pipeline.toml")
    file.write_text(text)
    for read in (load_pipeline, declared_queues):
        with pytest.raises(WrongDeclaration, match=why):
            read(file)


def test_the_lines_of_a_file_are_read_once_for_a_thousand_mistakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = list[str]()
    toml_keys = declaration_file._toml_keys

    def counted(text: str) -> Iterator[tuple[declaration_file.Keys, int]]:
        readings.append(text)
        return toml_keys(text)

    monkeypatch.setattr(declaration_file, "_toml_keys", counted)
    file = tmp_path / "pipeline.toml"
    file.write_text("".join(f"wrong{number} = 1\n" for number in range(1_000)) + BM25_ALONE)
    with pytest.raises(WrongDeclaration, match="wrong999"):
        load_pipeline(file)
    assert len(readings) == 1
