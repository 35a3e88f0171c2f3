"""The list of what five earlier systems promised names tests that exist, all of those beside it, and its page is current."""

from __future__ import annotations

import json
import re

from docs.evidence.first_systems import FIGURES, PAGE, SYSTEMS, first_systems_page, numbered
from tests.architecture.test_guarantees import ROOT, exists

FOLDER = "tests/acceptance/first_systems"


def test_every_promise_has_a_test_or_says_what_is_lacking() -> None:
    assert [len(system.lines) for system in SYSTEMS] == [19, 23, 31, 29, 31]
    assert [number for number, line in numbered() if not line.tests and not line.lacks] == []


def test_every_promise_names_tests_that_exist() -> None:
    assert [test for _, line in numbered() for test in line.tests if not exists(test)] == []


def test_every_test_of_the_first_systems_belongs_to_a_promise() -> None:
    named = {test for _, line in numbered() for test in line.tests}
    there = {
        f"{FOLDER}/{file.name}::{name}"
        for file in (ROOT / FOLDER).glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert there - named == set()


def test_every_figure_belongs_to_a_promise() -> None:
    assert json.loads(FIGURES.read_text(encoding="utf-8")).keys() <= dict(numbered()).keys()


def test_the_page_of_the_first_systems_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == first_systems_page(), (
        "run `python -m docs.evidence.first_systems`"
    )
