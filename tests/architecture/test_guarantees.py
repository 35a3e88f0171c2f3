"""Every promise names a test that exists, its mutant fits the code, and its page is current."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.mutants import ALL, SECTIONS
from tests.mutants.matrix import PAGE, matrix_page
from tests.mutants.mutant import Mutant

ROOT = Path(__file__).parents[2]
PROMISES = [one for promises in SECTIONS.values() for one in promises]


def test_no_promise_was_lost() -> None:
    assert len(PROMISES) >= 176


def test_no_promise_is_listed_twice() -> None:
    assert len({one.promise for one in PROMISES}) == len(PROMISES)


def test_every_promise_names_a_test_that_exists() -> None:
    named = [
        (one.promise, test) for one in PROMISES for test in (one.test, getattr(one, "shown_by", "")) if test
    ]
    assert [(promise, test) for promise, test in named if not exists(test)] == []


def exists(test: str) -> bool:
    """Returns whether the test of a node id (`tests/a.py::TestB::test_c[d]`) is in its file or in an inherited suite."""
    file, *_, name = test.partition("[")[0].split("::")
    path = ROOT / file
    if not path.is_file():
        return False
    places = [path, *(ROOT / "tests" / "contracts").glob("*.py")]
    return any(re.search(rf"def {name}\(", place.read_text(encoding="utf-8")) for place in places)


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.promise)
def test_the_line_that_a_mutant_changes_is_there_once(mutant: Mutant) -> None:
    assert (ROOT / mutant.file).read_text(encoding="utf-8").count(mutant.line) == 1


def test_the_page_of_all_promises_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == matrix_page(), "run `python -m tests.mutants.matrix`"
