"""docs/evidence/guarantees.md names tests that exist, and each of its promises has a mutant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mutants import MUTANTS
from tests.mutants.breaking import Mutant, broken

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/evidence/guarantees.md").read_text(encoding="utf-8")
PROMISES = re.findall(r"^- \*\*(.+)\.\*\*", PAGE, re.MULTILINE)


def exists(test: str) -> bool:
    """Whether the test `place::name` is there; its place is a file or a folder, and a class may inherit it from a contract."""
    place, *_, name = test.partition("[")[0].split("::")
    path = ROOT / place
    files = [path] if path.is_file() else list(path.rglob("*.py"))
    inherited = (ROOT / "tests/contracts").rglob("*.py") if files else ()
    return any(f"def {name}(" in file.read_text(encoding="utf-8") for file in (*files, *inherited))


def wrong_names(page: str) -> Iterator[str]:
    """The files, folders and tests of a page that do not exist; a test belongs to the place that was named last."""
    place = ""
    for name in re.findall(r"`(tests/[\w/.]+|test_\w+)`", page):
        if name.startswith("tests/"):
            place = name
            if not (ROOT / place).exists():
                yield place
        elif not exists(f"{place}::{name}"):
            yield f"{place}::{name}"


def test_the_page_names_files_and_tests_that_exist() -> None:
    assert list(wrong_names(PAGE)) == []


def test_every_promise_names_a_test() -> None:
    promises = re.split(r"^- (?=\*\*)", PAGE.partition("\n\n`make soak`")[0], flags=re.MULTILINE)[1:]
    assert [promise for promise in promises if "`tests/" not in promise] == []


def test_every_promise_of_the_page_has_a_mutant_and_every_mutant_a_promise() -> None:
    assert {mutant.promise for mutant in MUTANTS} == set(PROMISES)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.promise}: {mutant.fault}")
def test_a_mutant_breaks_a_function_that_exists_and_names_tests_that_exist(mutant: Mutant) -> None:
    assert broken(mutant) != (ROOT / mutant.file).read_text(encoding="utf-8")
    assert [test for test in mutant.tests if not exists(test)] == []
