"""Reads first_systems.md, what five earlier systems promised; `python -m docs.evidence.first_systems` writes its counts and figures.

first_systems.json has the figures that the tests record if CHORALE_TEST_RECORD is set.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).with_suffix(".md")
FIGURES = PAGE.with_suffix(".json")
_ROW = re.compile(r"^\| (\d\.\d+) \| (.+) \| (.+) \| (.*) \| (.*) \|$", re.MULTILINE)
_COUNTED = re.compile(r"^Of \d+ promises: .*$", re.MULTILINE)
_STATES = ("met", "in part", "not reached")


class Promise(NamedTuple):
    number: str
    """Such as 4.17 for the 17th promise of the fourth system."""
    text: str
    state: str
    """`met`, or `in part: …` or `not reached: …` with what the product or the tests lack."""
    tests: list[str]


def promises(page: str) -> list[Promise]:
    return [
        Promise(number, text, state, re.findall(r"`([^`]+)`", tests))
        for number, text, state, tests, _ in _ROW.findall(page)
    ]


def with_figures(page: str) -> str:
    """The page with the recorded figures, and with the number of promises in each state."""
    figures: dict[str, str] = json.loads(FIGURES.read_text(encoding="utf-8"))
    states = Counter(promise.state.partition(":")[0] for promise in promises(page))
    counted = ", ".join(f"{states[state]} {state}" for state in _STATES)
    page = _COUNTED.sub(f"Of {states.total()} promises: {counted}.", page)
    return _ROW.sub(
        lambda row: f"| {row[1]} | {row[2]} | {row[3]} | {row[4]} | {figures.get(row[1], '')} |", page
    )


if __name__ == "__main__":
    PAGE.write_text(with_figures(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
