"""Draws the moving picture of README: the chord of one request, while one of its workers hangs (`python -m docs.drawings.chord`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from docs.drawings.svg import LOOP_S, MOVING, MUTED, arrow, box, moving, page, text

BLUE = {"fill": "#eff6ff", "edge": "#3b82f6"}
GREEN = {"fill": "#ecfdf5", "edge": "#10b981"}
RED = {"fill": "#fef2f2", "edge": "#ef4444"}
AMBER = {"fill": "#fffbeb", "edge": "#f59e0b"}
GREY = {"fill": "#f9fafb", "edge": "#9ca3af"}
BRANCHES = (
    ("bm25", "words", GREEN),
    ("vector", "its worker hangs", RED),
    ("hyde", "meaning, by a hypothesis", GREEN),
)
_TOP, _STEP, _HIGH = 24, 78, 60


def drawing() -> str:
    return page(
        960,
        400,
        "A request fans out to three branches; one worker hangs, and the answer comes without it and says so",
        [MOVING, *_shapes(), *_messages()],
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
    yield text(
        480,
        386,
        "Celery carries the work; the ledger decides when it ends, within timeout_s (the bar).",
        size=13,
        fill=MUTED,
    )


ANSWERED_S = {"bm25": 2.6, "hyde": 3.4}
"""When each branch of the picture has its ranking.  The other one stays with the worker that hangs."""
JOINED_S, ENDED_S = 5.2, 6.4


def _messages() -> Iterator[str]:
    """The messages of the request, and the time that passes."""
    middle = _TOP + _STEP + _HIGH / 2
    yield moving((150, middle), (196, middle), start_s=0.2, end_s=0.9)
    for number, (name, _, colours) in enumerate(BRANCHES):
        centre = _TOP + _STEP * number + _HIGH / 2
        answered_s, colour = ANSWERED_S.get(name), colours["edge"]
        there = ((330, middle), (356, middle), (356, centre), (385, centre))
        yield moving(*there, start_s=1.0, end_s=1.8, stays=answered_s is None, colour=colour)
        if answered_s is not None:
            back = ((575, centre), (604, centre), (604, middle), (640, middle))
            yield moving(*back, start_s=answered_s, end_s=answered_s + 0.8, colour=colour)
    yield moving(
        (760, middle), (805, middle), start_s=JOINED_S, end_s=ENDED_S, stays=True, colour=AMBER["edge"]
    )
    ended = 100 * ENDED_S / LOOP_S
    bar = 'x="212" y="351" width="536" height="5" rx="2.5"'
    yield f'<rect {bar} fill="#e5e7eb"/>'
    yield (
        f"<style>@keyframes time{{0%{{transform:scaleX(0);opacity:1}}{ended:.1f}%,100%{{transform:scaleX(.9);opacity:1}}}}</style>\n"
        f'<rect class="moving" {bar} fill="{BLUE["edge"]}" '
        f'style="transform-origin:212px 0;animation:time {LOOP_S:g}s linear infinite"/>'
    )


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(drawing(), encoding="utf-8")
