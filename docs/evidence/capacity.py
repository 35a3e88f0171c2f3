"""How many processes a number of requests a second needs: `python -m docs.evidence.capacity` writes the table of capacity.md.

It reads what `python -m tests.bench latency --json` printed (capacity.json beside it).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE, MEASURED = HERE / "capacity.md", HERE / "capacity.json"
RATES = (100, 1_000, 10_000)
IN_FLIGHT = 16
BUSY = 0.6
"""Share of a core that a process may use, so that its queue stays short."""
ANSWER_TTL_S = 600
"""The default of CHORALE_ANSWER_TTL_S."""
BRANCHES = ("bm25", "vector", "hyde", "fusion")
ONE_A_CELL = {"redis": "Redis", "sweeper": "sweeper and drainer"}
"""Processes of which a cell uses one core at a time."""
COMPUTED = re.compile(r"(?<=<!-- computed -->\n).*?(?=<!-- end -->)", re.DOTALL)


def cpu_by_role(measured: Mapping[str, Any]) -> dict[str, float]:
    """Processor time of a request, in ms, by what the process does."""
    (run,) = (run for run in measured["runs"] if (run["name"], run["in_flight"]) == ("chord", IN_FLIGHT))
    roles: Counter[str] = Counter()
    for process, ms in run["cpu_ms"].items():
        roles[process.rpartition("-")[0] or process] += ms
    # In `chorale up` the drainer runs in the process of the sweeper; the bench has it apart.
    roles["sweeper"] += roles.pop("drainer", 0)
    return dict(roles)


def table(measured: Mapping[str, Any]) -> str:
    """The computed part of the page."""
    cpu = cpu_by_role(measured)
    redis = next(one for one in measured["redis_at"] if one["in_flight"] == IN_FLIGHT)
    rows, remaining_bytes = measured["audit_rows_per_request"], measured["redis_bytes_left_per_request"]

    def processes(ms: float, rate: int) -> int:
        return ceil(rate * ms / 1_000 / BUSY)

    limits = {name: 1_000 * BUSY / cpu[role] for role, name in ONE_A_CELL.items()}
    cells = {rate: ceil(rate / min(limits.values())) for rate in RATES}
    lines: dict[str, list[str]] = {
        f"`{role}` processes ({cpu[role]:.2f} ms)": [f"{processes(cpu[role], rate):,}" for rate in RATES]
        for role in BRANCHES
    }
    lines[f"callers that plan ({cpu['caller']:.2f} ms)"] = [
        f"{processes(cpu['caller'], rate):,}" for rate in RATES
    ]
    for role, name in ONE_A_CELL.items():
        lines[f"{name} ({cpu[role]:.2f} ms), cores in use"] = [
            f"{rate * cpu[role] / 1_000:.2f}" for rate in RATES
        ]
    lines["**cells**: each a Redis, a sweeper, an audit database"] = [f"**{cells[rate]}**" for rate in RATES]
    lines["cores in all"] = [f"{ceil(rate * sum(cpu.values()) / 1_000 / BUSY):,}" for rate in RATES]
    lines[f"operations in Redis a second ({redis['operations']:.0f} a request)"] = [
        f"{rate * redis['operations']:,.0f}" for rate in RATES
    ]
    lines[f"Redis' network, Mbit/s ({redis['bytes_moved']:,} bytes a request)"] = [
        f"{rate * redis['bytes_moved'] * 8 / 1e6:,.0f}" for rate in RATES
    ]
    lines[f"answers that Redis keeps for {ANSWER_TTL_S} s, GB ({remaining_bytes:,} bytes a request)"] = [
        f"{rate * remaining_bytes * ANSWER_TTL_S / 1e9:,.2f}" for rate in RATES
    ]
    lines[f"audit rows a second ({rows:g} a request)"] = [f"{rate * rows:,.0f}" for rate in RATES]
    head = (
        "| requests a second | "
        + " | ".join(f"{rate:,}" for rate in RATES)
        + " |\n|---|"
        + "---|" * len(RATES)
    )
    body = "\n".join(f"| {name} | {' | '.join(values)} |" for name, values in lines.items())
    first = min(limits, key=lambda name: limits[name])
    said = ", ".join(f"{name} {limit:,.0f}" for name, limit in limits.items())
    return f"{head}\n{body}\n\nRequests a second of one cell: {said}.  The first bottleneck of a cell is: {first}.\n"


def page() -> str:
    """The page with the table of the present figures."""
    computed = table(json.loads(MEASURED.read_text(encoding="utf-8")))
    return COMPUTED.sub(lambda _: computed, PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
