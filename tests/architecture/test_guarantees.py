"""docs/evidence/guarantees.md names tests and mutants that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.mutants import ALL
from tests.mutants.mutant import Mutant

ROOT = Path(__file__).parent.parent.parent
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs/evidence/guarantees.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("|") and "`test_" in line
]
TESTS = {
    name
    for file in (ROOT / "tests").rglob("*.py")
    for name in re.findall(r"def (test_\w+)\(", file.read_text(encoding="utf-8"))
}


def test_there_are_promises() -> None:
    assert len(ROWS) > 15


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1].strip("`"))
def test_each_promise_names_a_test_that_exists_and_a_mutant_that_exists(row: list[str]) -> None:
    _, test, mutant = row
    assert test.strip("`") in TESTS
    assert mutant == "–" or mutant in {known.guarantee for known in ALL}


def test_each_mutant_stands_beside_a_promise() -> None:
    assert {mutant.guarantee for mutant in ALL} <= {row[2] for row in ROWS}


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.guarantee)
def test_the_line_that_a_mutant_changes_is_there_once(mutant: Mutant) -> None:
    assert (ROOT / mutant.file).read_text(encoding="utf-8").count(mutant.line) == 1
