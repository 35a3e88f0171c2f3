"""The page of what five earlier systems promised names tests that exist, all of those beside it, and its figures are current."""

from __future__ import annotations

import json
import re
from collections import Counter

from docs.evidence.first_systems import PAGE, RESULTS, passed_tests, promises, with_results
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
        if not re.fullmatch(r"met|(in part|not reached|not shown): .+", promise.state)
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
    figures = json.loads(RESULTS.read_text(encoding="utf-8"))["figures"]
    assert figures.keys() <= {promise.number for promise in PROMISES}


def test_the_states_and_figures_of_the_page_are_those_that_the_tests_have_shown() -> None:
    assert with_results(TEXT) == TEXT, "run `python -m docs.evidence.first_systems`"


def test_a_promise_whose_test_did_not_pass_is_not_shown_to_be_met() -> None:
    promise = next(promise for promise in PROMISES if promise.state == "met")
    missing = promise.tests[-1]
    changed = TEXT.replace(f"`{missing}`", "`tests/test_nowhere.py::test_nothing`")
    row = next(each for each in promises(with_results(changed)) if each.number == promise.number)
    assert row.state == "not shown: tests/test_nowhere.py::test_nothing did not pass"
    cases = [f"{missing}[first]", f"{missing}[second]", "tests/test_other.py::test_other"]
    assert passed_tests(TEXT, cases, []) == [missing]
    assert passed_tests(TEXT, cases[:1], cases[1:]) == []
