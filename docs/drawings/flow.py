"""The steps of one request and the processes that take them: the drawing of docs/reference/flow.md."""

from __future__ import annotations

from collections.abc import Iterator

from docs.drawings.chord import AMBER, BLUE, GREEN, GREY
from docs.drawings.svg import MUTED, arrow, box, page, text

STEPS = (
    ("accept", "accept.lua", "caller", GREY),
    ("plan", "plan.lua", "chorale.retrieve", BLUE),
    ("chord", "start.lua", "branch workers", GREEN),
    ("report", "report.lua", "branch workers", GREEN),
    ("join", "join.lua", "chorale.fusion", BLUE),
    ("fuse", "", "chorale.fusion", BLUE),
    ("finish", "finish.lua", "chorale.fusion", BLUE),
    ("audit", "outbox", "drainer", AMBER),
)
"""Step, script of the ledger, who takes it."""
_WIDE, _GAP, _LEFT, _TOP = 98, 20, 18, 52


def drawing() -> str:
    return page(964, 272, "accept, plan, chord, report, join, fuse, finish, audit", _shapes())


def _shapes() -> Iterator[str]:
    for number, (step, script, who, colours) in enumerate(STEPS):
        x = _LEFT + number * (_WIDE + _GAP)
        middle = x + _WIDE / 2
        yield box(x, _TOP, _WIDE, 50, f"{number + 1} {step}", **colours)
        yield text(middle, _TOP - 12, who, size=12, fill=MUTED)
        if number:
            yield arrow((x - _GAP, _TOP + 25), (x - 3, _TOP + 25))
        if script:
            yield arrow((middle, _TOP + 53), (middle, 157), is_dashed=True)
            yield text(
                middle,
                134,
                script,
                size=11,
                fill=MUTED,
                style=' paint-order="stroke" stroke="#fff" stroke-width="5"',
            )
    yield box(
        _LEFT, 160, 928, 34, "ledger: one Redis hash for each request, one Lua script for each step", **GREY
    )
    yield box(
        _LEFT,
        222,
        928,
        34,
        "sweeper: sends lost messages again, plans, calls the fusion or ends the request",
        **GREY,
    )
    yield arrow((482, 222), (482, 197), both=True)
