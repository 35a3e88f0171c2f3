"""README.md and measurements.md have the figures of one run, which latency.json keeps."""

from __future__ import annotations

import json

import pytest

from docs.evidence import latency


def test_the_pages_have_the_figures_of_the_measured_run() -> None:
    for page, text in latency.pages().items():
        assert page.read_text(encoding="utf-8") == text, (
            "run `make bench`, or `python -m docs.evidence.latency`"
        )


def test_other_figures_change_both_pages() -> None:
    measured = json.loads(latency.MEASURED.read_text(encoding="utf-8"))
    for run in measured["runs"]:
        if run["name"] == "chord":
            run |= {"p50_ms": 12.345, "requests_per_s": 1234.5}
    pages = {page.name: write(page.read_text("utf-8"), measured) for page, write in latency.PAGES.items()}
    assert "| median of one request | 12.3 ms |" in pages["README.md"]
    assert "| requests a second, 16 in flight | 1,234 |" in pages["README.md"]
    assert "| `chord` | 16 | 12.3 |" in pages["measurements.md"]


def test_a_readme_without_its_rows_is_an_error() -> None:
    measured = json.loads(latency.MEASURED.read_text(encoding="utf-8"))
    with pytest.raises(ValueError, match=r"README\.md has 0 rows 'median of one request'"):
        latency.readme("no table", measured)
