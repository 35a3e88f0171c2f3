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
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| (yes|no) \| (0|8) \|$", WIRE.read_text(), re.MULTILINE)
    expected = [
        (str(one), one.meaning, "yes" if one.is_part else "no", "8" if one.is_fault else "0")
        for one in LeftOut
    ]
    assert rows == expected
