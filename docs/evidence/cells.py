"""How many requests without work two cells carry: `python -m docs.evidence.cells` writes the simulated table of capacity.md.

It simulates one machine, event by event.  The processor times are those of capacity.json; each time of a step is drawn from the
exponential distribution with this mean.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Any

from docs.evidence.capacity import BRANCHES, IN_FLIGHT, MEASURED, ONE_A_CELL, PAGE, cpu_by_role

CORES = (2, 4, 8, 16)
SIMULATED = re.compile(r"(?<=<!-- simulated -->\n).*?(?=<!-- end of simulated -->)", re.DOTALL)
STEPS = ("caller", "redis", *BRANCHES, "sweeper")
"""A request is in one step after another: branches that overlap would change its time, and not how many are carried."""
REQUESTS_IN_FLIGHT = 64
REQUESTS = 5_000


def carried(cpu_ms: Mapping[str, float], *, cells: int, cores: int, seed: int = 1) -> float:
    """Requests a second of one machine.  A request goes to a cell by chance.  A step needs a core, and a cell's Redis and sweeper
    do one step at a time; the other processes are as many as they need to be."""
    chance = random.Random(seed)
    # Steps that wait, in the order in which they began to: the cell and the number of the step.
    waiting = [(chance.randrange(cells), 0) for _ in range(REQUESTS_IN_FLIGHT)]
    running: list[tuple[float, int, int]] = []
    busy, now_ms, ended = set[tuple[int, str]](), 0.0, 0
    while ended < REQUESTS:
        for cell, step in list(waiting):
            if len(running) == cores:
                break
            if (cell, STEPS[step]) not in busy:
                waiting.remove((cell, step))
                if STEPS[step] in ONE_A_CELL:
                    busy.add((cell, STEPS[step]))
                heappush(running, (now_ms + chance.expovariate(1 / cpu_ms[STEPS[step]]), cell, step))
        now_ms, cell, step = heappop(running)
        busy.discard((cell, STEPS[step]))
        if step + 1 < len(STEPS):
            waiting.append((cell, step + 1))
        else:
            ended += 1
            waiting.append((chance.randrange(cells), 0))
    return 1_000 * ended / now_ms


def table(measured: Mapping[str, Any]) -> str:
    """The simulated part of the page."""
    cpu_ms = cpu_by_role({"runs": measured["no_op_runs"]})
    lines = ["| cores | one cell | two cells | ratio |", "|---|---|---|---|"]
    for cores in CORES:
        one, two = (carried(cpu_ms, cells=cells, cores=cores) for cells in (1, 2))
        lines.append(f"| {cores} | {one:,.0f} | {two:,.0f} | {two / one:.2f} |")
    spent = ", ".join(f"{role} {cpu_ms[role]:.2f}" for role in STEPS)
    return "\n".join(lines) + f"\n\nProcessor time in ms with {IN_FLIGHT} in flight: {spent}.\n"


def page() -> str:
    """The page with the table of the present figures."""
    simulated = table(json.loads(MEASURED.read_text(encoding="utf-8")))
    return SIMULATED.sub(lambda _: simulated, PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
