"""README.md's row of times and the table of measurements.md, from one run: `make bench` measures it and calls this module.

latency.json beside it is what `python -m tests.bench latency --json` printed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MEASURED = HERE / "latency.json"
COLUMNS = ("chord", "plain_chord", "in_process")
"""README.md's columns."""
ALONE, TOGETHER = 1, 16
"""Requests in flight."""
_NUMBER_COLUMNS = "| --- | --- | --- | --- | --- | --- |"


def readme(text: str, measured: Mapping[str, Any]) -> str:
    """README.md with the figures of this run."""
    runs = {(run["name"], run["in_flight"]): run for run in measured["runs"]}
    rows = {
        "median of one request": [f"{_short(runs[name, ALONE]['p50_ms'])} ms" for name in COLUMNS],
        f"requests a second, {TOGETHER} in flight": [
            _short(runs[name, TOGETHER]["requests_per_s"]) for name in COLUMNS
        ],
    }
    for label, values in rows.items():
        text, replaced = re.subn(
            rf"^\| {label} \|.*$", f"| {label} | {' | '.join(values)} |", text, flags=re.MULTILINE
        )
        if replaced != 1:
            raise ValueError(f"README.md has {replaced} rows {label!r}, not one")
    return text


def measurements(text: str, measured: Mapping[str, Any]) -> str:
    """measurements.md with the table of this run."""
    body = [
        *map(_row, measured["runs"]),
        *(f"| without work: {_row(run)[2:]}" for run in measured["no_op_runs"]),
    ]
    table = "\n".join(
        ["| | in flight | p50 ms | p95 ms | requests/s | CPU ms a request |", _NUMBER_COLUMNS, *body]
    )
    text, replaced = re.subn(
        r"(?<=<!-- latency.json -->\n).*?(?=\n<!-- end -->)", lambda _: table, text, flags=re.DOTALL
    )
    if replaced != 1:
        raise ValueError(f"measurements.md has {replaced} places for latency.json, not one")
    return text


PAGES: Mapping[Path, Callable[[str, Mapping[str, Any]], str]] = {
    HERE.parents[1] / "README.md": readme,
    HERE / "measurements.md": measurements,
}


def pages() -> Mapping[Path, str]:
    """Each page with the figures of latency.json.  Raises ValueError for a page that has no place for them."""
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    return {page: write(page.read_text(encoding="utf-8"), measured) for page, write in PAGES.items()}


def _row(run: Mapping[str, Any]) -> str:
    values: Sequence[float] = (
        run["p50_ms"],
        run["p95_ms"],
        run["requests_per_s"],
        sum(run["cpu_ms"].values()),
    )
    return f"| `{run['name']}` | {run['in_flight']} | {' | '.join(map(_short, values))} |"


def _short(value: float) -> str:
    """Three digits, and the whole number from 100 on."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text, encoding="utf-8")
