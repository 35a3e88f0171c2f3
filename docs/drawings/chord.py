"""The chord of one request, one of whose workers is away: the drawing of the README."""

from __future__ import annotations

from collections.abc import Iterator

from docs.drawings.svg import MUTED, arrow, box, page, text

BLUE = {"fill": "#eff6ff", "edge": "#3b82f6"}
GREEN = {"fill": "#ecfdf5", "edge": "#10b981"}
RED = {"fill": "#fef2f2", "edge": "#ef4444"}
AMBER = {"fill": "#fffbeb", "edge": "#f59e0b"}
GREY = {"fill": "#f9fafb", "edge": "#9ca3af"}
BRANCHES = (
    ("bm25", "words", GREEN),
    ("vector", "no worker", RED),
    ("hyde", "meaning, by a hypothesis", GREEN),
)
_TOP, _STEP, _HIGH = 24, 78, 60


def drawing() -> str:
    return page(
        960, 400, "A request fans out to three branches; one is away and the answer says so", _shapes()
    )


def _shapes() -> Iterator[str]:
    middle = _TOP + _STEP + _HIGH / 2
    yield box(20, middle - 38, 130, 76, "your app", "retrieve(…,", "timeout_s=2)", **GREY)
    yield box(200, middle - 38, 130, 76, "plan", "branches, limits,", "weights", **BLUE)
    yield arrow((150, middle), (196, middle))
    for number, (name, what, colours) in enumerate(BRANCHES):
        y = _TOP + _STEP * number
        centre = y + _HIGH / 2
        yield box(385, y, 190, _HIGH, name, what, **colours)
        yield arrow((330, middle), (356, middle), (356, centre), (381, centre))
        is_away = colours is RED
        yield arrow(
            (575, centre),
            (604, centre),
            (604, middle),
            (636, middle),
            is_dashed=is_away,
            colour=colours["edge"],
        )
    yield box(640, middle - 38, 120, 76, "fuse", "ranks of what", "came in time", **BLUE)
    yield arrow((760, middle), (801, middle))
    yield box(
        805,
        middle - 54,
        135,
        108,
        "answer",
        "degraded: hits of",
        "bm25 and hyde;",
        "search.vector",
        "not_started",
        **AMBER,
    )
    yield box(
        200,
        300,
        560,
        62,
        "ledger in Redis",
        "who is expected, who has answered, when to join, when to end",
        **GREY,
    )
    for x in (265, 480, 700):
        yield arrow((x, 243 if x == 480 else middle + 40), (x, 297), is_dashed=True, both=True)
    yield box(805, 300, 135, 62, "sweeper", "ends what nobody", "else ended", **GREY)
    yield arrow((805, 331), (763, 331), both=True)
    yield text(480, 386, "Celery carries the work; the ledger decides when it ends.", size=13, fill=MUTED)
