"""What five earlier systems promised: first_systems.md with the states and figures that a run of the tests has shown.

`CHORALE_TEST_RECORD=1 CHORALE_TEST_PASSED=passed.txt make test-all` records the figures in first_systems.json, and the tests that
passed in passed.txt.  Then `python -m docs.evidence.first_systems passed.txt` writes both files anew.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).with_suffix(".md")
RESULTS = PAGE.with_suffix(".json")
"""`figures` by promise, and the tests of the page that `passed`."""
_ROW = re.compile(r"^\| (\d\.\d+) \| (.+) \| (.+) \| (.*) \| (.*) \|$", re.MULTILINE)
_COUNTED = re.compile(r"^Of \d+ promises: .*$", re.MULTILINE)
_STATES = ("met", "in part", "not reached", "not shown")


class Promise(NamedTuple):
    number: str
    """Such as 4.17 for the 17th promise of the fourth system."""
    text: str
    state: str
    """`met` or `not shown: …`, as the tests say; or `in part: …` or `not reached: …` with what the product or the tests lack."""
    tests: list[str]


def promises(page: str) -> list[Promise]:
    return [
        Promise(number, text, state, re.findall(r"`([^`]+)`", tests))
        for number, text, state, tests, _ in _ROW.findall(page)
    ]


def passed_tests(page: str, nodeids: Iterable[str], others: Iterable[str]) -> list[str]:
    """The page's tests of which every case passed; `others` failed or were skipped, and may have passed in a later run."""
    passed = set(nodeids)
    ran = {nodeid.partition("[")[0] for nodeid in passed}
    lacking = {nodeid.partition("[")[0] for nodeid in set(others) - passed}
    return sorted({test for promise in promises(page) for test in promise.tests} & ran - lacking)


def with_results(page: str) -> str:
    """The page with the states and figures of first_systems.json, and with the number of promises in each state."""
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    figures, passed = results["figures"], set(results["passed"])

    def row(match: re.Match[str]) -> str:
        number, text, state, tests, _ = match.groups()
        if state.startswith(("met", "not shown")):
            failed = [test for test in re.findall(r"`([^`]+)`", tests) if test not in passed]
            state = f"not shown: {', '.join(failed)} did not pass" if failed else "met"
        return f"| {number} | {text} | {state} | {tests} | {figures.get(number, '')} |"

    page = _ROW.sub(row, page)
    states = Counter(promise.state.partition(":")[0] for promise in promises(page))
    counted = ", ".join(f"{states[state]} {state}" for state in _STATES)
    return _COUNTED.sub(f"Of {states.total()} promises: {counted}.", page)


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    for file in sys.argv[1:]:
        results = json.loads(RESULTS.read_text(encoding="utf-8"))
        lists = (Path(each).read_text(encoding="utf-8").splitlines() for each in (file, f"{file}.not"))
        results["passed"] = passed_tests(page, *lists)
        RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    PAGE.write_text(with_results(page), encoding="utf-8")
