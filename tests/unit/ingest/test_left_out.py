"""The list of reasons is closed: each has a case in the tests and a line in the documents."""

from __future__ import annotations

import re
from pathlib import Path

from models.left_out import LeftOut
from tests.support.left_out import ELSEWHERE, FILES, ROWS

WIRE = Path(__file__).parents[3] / "docs" / "reference" / "wire.md"


def test_each_reason_has_a_case() -> None:
    assert {*FILES, *ROWS, *ELSEWHERE} == set(LeftOut)


def test_each_reason_is_in_the_reference_with_its_meaning_and_its_effects() -> None:
    section = WIRE.read_text().partition("## Why something is not indexed\n")[2]
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| (0|8) \|$", section, re.MULTILINE)
    assert rows == [(str(reason), reason.meaning, "8" if reason.is_fault else "0") for reason in LeftOut]
    assert [reason.is_part for reason in LeftOut] == [
        reason.meaning.startswith("it is indexed without ") for reason in LeftOut
    ]
