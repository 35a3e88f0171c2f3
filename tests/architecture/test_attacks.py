"""The list of attacks names tests that exist, and its page is current."""

from __future__ import annotations

import re

from docs.evidence.attacks import ATTACKS, PAGE, attacks_page
from tests.architecture.test_guarantees import ROOT, exists


def test_every_attack_names_tests_that_exist() -> None:
    assert all(tests for _, _, tests in ATTACKS)
    assert [test for _, _, tests in ATTACKS for test in tests if not exists(test)] == []


def test_the_pages_about_security_name_tests_that_exist() -> None:
    pages = ("docs/security.md", "docs/evidence/attacks.md")
    text = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in pages)
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name in re.findall(r"`(test_\w+)`", text) if f"def {name}(" not in tests] == []
    assert [path for path in re.findall(r"`(tests/[\w/]+\.py)`", text) if not (ROOT / path).is_file()] == []


def test_the_page_of_attacks_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == attacks_page(), "run `python -m docs.evidence.attacks`"
