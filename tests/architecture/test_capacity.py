"""docs/evidence/capacity.md: its table is what its script computes from the measured figures."""

from __future__ import annotations

from docs.evidence import capacity


def test_the_page_has_the_table_that_its_script_computes() -> None:
    assert capacity.PAGE.read_text(encoding="utf-8") == capacity.page(), (
        "run `python -m docs.evidence.capacity`"
    )
