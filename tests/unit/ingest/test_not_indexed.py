"""The list of reasons is closed: each has a case in the tests and a line in the documents."""

from __future__ import annotations

import re
from pathlib import Path

from models.not_indexed import NotIndexed
from tests.support.not_indexed import ELSEWHERE, FILES, ROWS

WIRE = Path(__file__).parents[3] / "docs" / "reference" / "wire.md"


def test_each_reason_has_a_case() -> None:
    assert {*FILES, *ROWS, *ELSEWHERE} == set(NotIndexed)


def test_each_reason_is_in_the_reference_with_its_meaning_and_its_effects() -> None:
    section = WIRE.read_text().partition("## Why something is not indexed\n")[2]
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", section.partition("\n## ")[0], re.MULTILINE)
    assert rows == [(str(reason), reason.meaning) for reason in NotIndexed]
    (harmless,) = re.findall(r"exit\s+code\s+is\s+8,\s+except\s+for\s+(.+?)\.\n", section, re.DOTALL)
    assert re.findall(r"`(\w+)`", harmless) == [str(reason) for reason in NotIndexed if not reason.is_fault]
    assert [reason.is_part for reason in NotIndexed] == [
        reason.meaning.startswith("it is indexed without ") for reason in NotIndexed
    ]
