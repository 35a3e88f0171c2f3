"""The page of what five earlier systems promised names tests that exist, all of those beside it, and its figures are current."""

from __future__ import annotations

import json
import re
from collections import Counter

from docs.evidence.first_systems import FIGURES, PAGE, promises, with_figures
from tests.architecture.test_guarantees import ROOT, exists

FOLDER = "tests/acceptance/first_systems"
TEXT = PAGE.read_text(encoding="utf-8")
PROMISES = promises(TEXT)


def test_every_promise_has_a_test_or_says_what_is_lacking() -> None:
    systems = Counter(promise.number.partition(".")[0] for promise in PROMISES)
    assert [*systems.values()] == [19, 23, 31, 29, 31]
    numbers = [f"{system}.{number}" for system, count in systems.items() for number in range(1, count + 1)]
    assert [promise.number for promise in PROMISES] == numbers
    wrong = [
        promise
        for promise in PROMISES
        if not re.fullmatch(r"met|(in part|not reached): .+", promise.state)
        or promise.state.startswith("not reached") is bool(promise.tests)
    ]
    assert wrong == []


def test_every_promise_names_tests_that_exist() -> None:
    assert [test for promise in PROMISES for test in promise.tests if not exists(test)] == []


def test_every_test_of_the_first_systems_belongs_to_a_promise() -> None:
    there = {
        f"{FOLDER}/{file.name}::{name}"
        for file in (ROOT / FOLDER).glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert there - {test for promise in PROMISES for test in promise.tests} == set()


def test_every_figure_belongs_to_a_promise() -> None:
    assert json.loads(FIGURES.read_text(encoding="utf-8")).keys() <= {promise.number for promise in PROMISES}


def test_the_figures_of_the_page_are_current() -> None:
    assert with_figures(TEXT) == TEXT, "run `python -m docs.evidence.first_systems`"
