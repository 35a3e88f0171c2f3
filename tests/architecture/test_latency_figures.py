"""README.md has the figures of measurements.md; those of times are of one run, which latency.json keeps."""

from __future__ import annotations

import json
import re

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


def test_readme_has_the_figures_of_the_attack() -> None:
    pages = {page.name: " ".join(page.read_text(encoding="utf-8").split()) for page in latency.PAGES}
    measured, readme = pages["measurements.md"], pages["README.md"]

    def row(label: str) -> tuple[str, ...]:
        found = re.search(rf"\| {label} \| (\S+) \| (\S+) \| (\S+) \|", measured)
        assert found, label
        return found.groups()

    (requests, *_), (ours, plain, acks_late) = row("requests"), row("not ended a minute after the last")
    assert ours == "0"
    assert f"{requests} questions went to plain Celery chords" in readme
    assert f"**all {requests} ended**" in readme
    assert f"**{plain} never ended** ({acks_late} with `acks_late`)" in readme
    assert (
        f"{requests} requests while processes are killed and hung: never ended | {ours} | {plain} ({acks_late}) |"
        in readme
    )
    ours, plain, acks_late = row("ended within the time limit")
    assert f"ended within their time limit | {ours} | {plain} ({acks_late}) |" in readme
    late = re.search(r"(\d+) ended after their deadline: .*? the worst (\d+) ms", measured)
    assert late
    assert f"{late[1]} of the {requests} ended up to {late[2]} ms later" in readme
