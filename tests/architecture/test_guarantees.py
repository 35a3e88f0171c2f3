"""The pages of guarantees, of attacks and of what earlier systems promised name tests that exist, and each guarantee has a mutant."""

from __future__ import annotations

import re
from collections import Counter
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


@pytest.mark.parametrize("page", ["docs/security.md", "docs/evidence/attacks.md"])
def test_a_page_about_security_names_tests_that_exist(page: str) -> None:
    assert list(wrong_names((ROOT / page).read_text(encoding="utf-8"))) == []


def test_every_attack_names_a_test() -> None:
    page = (ROOT / "docs/evidence/attacks.md").read_text(encoding="utf-8").partition("\n## Open")[0]
    attacks = re.split(r"^- (?=\*\*)", page, flags=re.MULTILINE)[1:]
    assert len(attacks) > 30
    assert [attack for attack in attacks if not re.search(r"`tests/\S+\.py`: `test_\w+`", attack)] == []


THEIR_TESTS = "tests/acceptance/first_systems"
FIRST_SYSTEMS_PAGE = (ROOT / "docs" / "evidence" / "first_systems.md").read_text(encoding="utf-8")
FIRST_SYSTEMS = {
    number: (state, re.findall(r"`([^`]+)`", tests))
    for number, state, tests in re.findall(
        r"^\| (\d\.\d+) \| .+ \| (.+) \| (.*) \| .* \|$", FIRST_SYSTEMS_PAGE, re.MULTILINE
    )
}
"""State and tests by number: 4.17 is the 17th promise of the fourth system."""


def test_every_promise_has_a_test_or_says_what_is_lacking() -> None:
    counts = enumerate((19, 23, 31, 29, 31), start=1)
    assert [*FIRST_SYSTEMS] == [
        f"{system}.{number}" for system, count in counts for number in range(1, count + 1)
    ]
    for number, (state, tests) in FIRST_SYSTEMS.items():
        assert re.fullmatch(r"met|(in part|not reached): .+", state), number
        assert state.startswith("not reached") is not bool(tests), number
    states = Counter(state.partition(":")[0] for state, _ in FIRST_SYSTEMS.values())
    counted = ", ".join(f"{states[state]} {state}" for state in ("met", "in part", "not reached"))
    assert f"Of {states.total()} promises: {counted}." in FIRST_SYSTEMS_PAGE


def test_every_promise_names_tests_that_exist_and_every_test_of_the_first_systems_is_named() -> None:
    named = {test for _, tests in FIRST_SYSTEMS.values() for test in tests}
    assert [test for test in named if not exists(test)] == []
    there = {
        f"{THEIR_TESTS}/{file.name}::{name}"
        for file in (ROOT / THEIR_TESTS).glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert there - named == set()
