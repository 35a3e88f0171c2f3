"""A pipeline file as YAML: the same declaration and the same complaints, with their lines."""

from __future__ import annotations

import json
import tomllib
from functools import partial
from pathlib import Path

import pytest

from config.pipeline_reader import DEFAULT_FILE, declared_queues
from models.errors import WrongDeclaration
from tasks.wiring.pipeline import load_pipeline
from tests.support.pipelines.pipeline_files import Declares, declared

SMALLEST = """\
stores:
  local: {kind: embedded}

branches:
  bm25:
    kind: bm25
    group: lexical   # shares no encoder
    store: local
    weight: 2
"""


@pytest.fixture
def declares(tmp_path: Path) -> Declares:
    return partial(declared, tmp_path, name="pipeline.yaml")


def test_the_shipped_pipeline_means_the_same_as_yaml(declares: Declares) -> None:
    # JSON is YAML.
    shipped = json.dumps(tomllib.loads(DEFAULT_FILE.read_text()), indent=1)
    as_yaml, as_toml = declares(shipped), load_pipeline()
    assert as_yaml.configurations == as_toml.configurations
    assert (as_yaml.branches, as_yaml.stores) == (as_toml.branches, as_toml.stores)


@pytest.mark.parametrize("name", ["pipeline.yaml", "pipeline.yml", "PIPELINE.YAML"])
def test_the_name_of_the_file_says_that_it_is_yaml(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text(SMALLEST)
    pipeline = load_pipeline(file)
    assert [(branch.name, branch.weight) for branch in pipeline.branches] == [("bm25", 2.0)]
    assert declared_queues(file) == ["chorale.bm25"]


@pytest.mark.parametrize(
    ("before", "after", "line", "words"),
    [
        ("kind: bm25", "kind: bm52", 6, "branches.bm25.kind: no branch kind 'bm52'; there are: bm25, "),
        ("store: local", "store: lokal", 8, "branches.bm25.store: no store 'lokal'; there are: local"),
        ("weight: 2", "wieght: 2", 9, "branches.bm25.wieght: unknown field; there are: kind, "),
        ("weight: 2", "weight: -1", 9, "branches.bm25.weight: Input should be greater than or equal to 0"),
        ("{kind: embedded}", "{kind: embedded, options: {path: x}}", 2, "stores.local.options.path: unknown field"),
        ("weight: 2", "weight: 2\n    kind: vector", 10, "not valid YAML: 'kind' is declared in line 6 already"),
        ("weight: 2", "weight: [", 10, "not valid YAML: "),
        ("bm25:\n", "25:\n", 5, "not valid YAML: a key is no text"),
        ("weight: 2", "options: &a {b: *a}", 9, "aliases (`*name`) are not allowed"),
        ("weight: 2", "<<: {weight: 2}", 9, "not valid YAML: a key is no text"),
        ("weight: 2", "weight: " + "[" * 2_000, 9, "not valid YAML: nested deeper than 50 levels"),
        ("weight: 2", "weight: 2026-99-99", 9, "'2026-99-99' is not a value of the type timestamp"),
        ("weight: 2", "weight: !!bool x", 9, "'x' is not a value of the type bool"),
        ("weight: 2", "weight: !!timestamp x", 9, "'x' is not a value of the type timestamp"),
        ("weight: 2", f"weight: {'1:' * 999}1.5", 9, "is not a value of the type float"),
        (SMALLEST, "- a\n- b\n", 1, "not a table of stores"),
        (SMALLEST, "", 1, "no branch is declared"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_by_its_line(
    before: str, after: str, line: int, words: str, declares: Declares
) -> None:
    with pytest.raises(WrongDeclaration) as refused:
        declares(SMALLEST.replace(before, after, 1))
    (complaint,) = [row for row in str(refused.value).splitlines() if words in row]
    assert f"pipeline.yaml:{line}: " in complaint
