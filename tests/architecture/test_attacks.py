"""The page of attacks and that about security name tests that exist."""

from __future__ import annotations

import re

import pytest

from tests.architecture.test_guarantees import ROOT, wrong_names


@pytest.mark.parametrize("page", ["docs/security.md", "docs/evidence/attacks.md"])
def test_a_page_about_security_names_tests_that_exist(page: str) -> None:
    assert list(wrong_names((ROOT / page).read_text(encoding="utf-8"))) == []


def test_every_attack_names_a_test() -> None:
    page = (ROOT / "docs/evidence/attacks.md").read_text(encoding="utf-8").partition("\n## Open")[0]
    attacks = re.split(r"^- (?=\*\*)", page, flags=re.MULTILINE)[1:]
    assert len(attacks) > 30
    assert [attack for attack in attacks if not re.search(r"`tests/\S+\.py`: `test_\w+`", attack)] == []
