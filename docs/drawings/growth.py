"""Processor time of a request as the corpus and the processes grow: the plot of docs/evidence/growth.md.

It reads docs/evidence/growth.json, which `python -m tests.bench growth --json` printed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from math import log
from pathlib import Path
from typing import Any

from docs.drawings.svg import INK, MUTED, page, text

MEASURED = Path(__file__).parents[1] / "evidence" / "growth.json"
COLOURS = ("#3b82f6", "#10b981", "#f59e0b", "#ef4444")
_TOP, _WIDE, _HIGH = 64, 380, 230

Points = Mapping[float, float]


def drawing() -> str:
    runs = json.loads(MEASURED.read_text(encoding="utf-8"))["runs"]
    return page(960, 372, "Processor time of a request, by passages and by processes", _shapes(runs))


def _shapes(runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    fewest = min(run["processes"] for run in runs)
    cpu = {(run["passages"], run["processes"], run["in_flight"]): sum(run["cpu_ms"].values()) for run in runs}
    sizes, processes, in_flight = (sorted(set(values)) for values in zip(*cpu, strict=True))
    high = 1.08 * max(cpu.values())
    by_size = {
        f"{number} in flight": {size: cpu[size, fewest, number] for size in sizes} for number in in_flight
    }
    yield from _panel(70, f"ms of CPU a request, by passages ({fewest} process a branch)", by_size, high)
    most = max(sizes)
    by_processes = {
        f"{number} in flight": {count: cpu[most, count, number] for count in processes}
        for number in in_flight
    }
    yield from _panel(540, f"the same by processes a branch ({most:,} passages)", by_processes, high)


def _panel(left: float, title: str, lines: Mapping[str, Points], high: float) -> Iterator[str]:
    """Lines over a logarithmic axis that has a mark for each value."""
    xs = sorted({x for line in lines.values() for x in line})
    bottom = _TOP + _HIGH
    span = log(xs[-1] / xs[0]) or 1.0

    def at(x: float, y: float) -> tuple[float, float]:
        return left + _WIDE * log(x / xs[0]) / span, bottom - _HIGH * y / high

    yield text(left + _WIDE / 2, 30, title, size=14)
    step = 10 if high > 25 else 5
    for mark in range(0, int(high) + 1, step):
        y = at(xs[0], mark)[1]
        yield f'<line x1="{left}" y1="{y:.1f}" x2="{left + _WIDE}" y2="{y:.1f}" stroke="#e5e7eb"/>'
        yield text(left - 18, y + 4, str(mark), size=11, fill=MUTED)
    for x in xs:
        yield text(at(x, 0)[0], bottom + 18, f"{x:,}", size=11, fill=MUTED)
    for number, ((name, line), colour) in enumerate(zip(lines.items(), COLOURS, strict=False)):
        points = " ".join("{:.1f},{:.1f}".format(*at(x, y)) for x, y in sorted(line.items()))
        yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
        middle = left + 50 + number * 95
        yield f'<rect x="{middle - 46}" y="{bottom + 38}" width="9" height="9" fill="{colour}"/>'
        yield text(middle + 4, bottom + 47, name, size=11, fill=INK)
