"""What KEDA does with the chart's thresholds: `python -m docs.evidence.scaling` writes the table of sizing.md.

It simulates a queue second by second, as a queue with one server a worker, with the processor times of capacity.json.  What the
cluster does is assumed: the autoscaler decides every 15 s by figures that are 15 s old or newer, and a worker is ready 20 s
after it is wanted.
"""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import ceil
from statistics import quantiles
from typing import Any

import yaml

from docs.evidence.capacity import BRANCHES, COMPUTED, HERE, MEASURED, cpu_by_role

PAGE = HERE / "sizing.md"
VALUES = HERE.parents[1] / "deploy" / "helm" / "values.yaml"
DECIDES_EVERY_S = 15
STARTS_IN_S = 20
BEFORE_S = 60
TOLERANCE = 0.1
"""The autoscaler leaves a ratio between .9 and 1.1 as it is."""
MOST_NEW = 4
"""In 15 s it adds as many workers as there are, or this number if that is more."""


@dataclass(frozen=True, slots=True)
class Second:
    """The end of one second of the simulation."""

    wanted: int
    """The number of workers, with those that are starting."""
    p95_s: float
    """Time from the arrival to the end, of the messages that arrived in this second."""


def declared() -> dict[str, Any]:
    """The part `scaling` of the chart's values."""
    values: dict[str, Any] = yaml.safe_load(VALUES.read_text(encoding="utf-8"))["scaling"]
    return values


def simulated(
    service_s: float, rates: Iterable[float], scaling: Mapping[str, Any], *, workers: int, seed: int = 1
) -> list[Second]:
    """One queue under `rates`, the messages of each second."""
    chance = random.Random(seed)
    free_at_s = [0.0] * workers  # a heap: when each worker has ended what it has
    wanted, ends = workers, deque[tuple[float, float]]()
    least: deque[tuple[float, int]] = deque()
    seconds, busy_s, starting = list[Second](), deque[float](maxlen=DECIDES_EVERY_S), deque[float]()
    for now_s, rate in enumerate(rates):
        while starting and starting[0] <= now_s:
            heappush(free_at_s, starting.popleft())
        took_s, work_s = [0.0, 0.0], 0.0
        carried_s = sum(max(0.0, free - now_s) for free in free_at_s)
        at_s = now_s + chance.expovariate(rate)
        while at_s < now_s + 1:
            begins_s = max(at_s, heappop(free_at_s))
            length_s = chance.expovariate(1 / service_s)
            heappush(free_at_s, begins_s + length_s)
            ends.append((at_s, begins_s))
            took_s.append(begins_s + length_s - at_s)
            work_s += length_s
            at_s += chance.expovariate(rate)
        busy_s.append(min(carried_s + work_s, len(free_at_s)))
        while ends and ends[0][1] <= now_s + 1:
            ends.popleft()
        seconds.append(Second(wanted, quantiles(took_s, n=20)[-1]))
        if (now_s + 1) % DECIDES_EVERY_S:
            continue
        ready = len(free_at_s)
        age_s = now_s + 1 - ends[0][0] if ends else 0.0
        proposed = [ceil(len(ends) / scaling["messagesPerWorker"])]
        ratio = age_s / scaling["oldestWaitSeconds"]
        proposed.append(wanted if abs(ratio - 1) <= TOLERANCE else ceil(ready * ratio))
        ratio = sum(busy_s) / len(busy_s) / (scaling["coresPerWorker"] * ready)
        proposed.append(wanted if abs(ratio - 1) <= TOLERANCE else ceil(ready * ratio))
        proposal = min(max(*proposed, scaling["minReplicas"]), scaling["maxReplicas"])
        least.append((now_s, proposal))
        while least[0][0] <= now_s - scaling["fewerAfterSeconds"]:
            least.popleft()
        # Workers end only if every proposal of the window was for fewer workers.
        fewer = min(wanted, max(each for _, each in least))
        more = min(proposal, wanted + max(wanted, MOST_NEW))
        new = max(fewer, more) if proposal > wanted else fewer
        starting.extend([now_s + 1.0 + STARTS_IN_S] * (new - wanted))
        for _ in range(wanted - new):
            if starting:
                starting.pop()
            else:
                free_at_s.remove(min(free_at_s))
        free_at_s.sort()
        wanted = new
    return seconds


def doubled(
    service_s: float, scaling: Mapping[str, Any], workers: int, *, length_s: int = 420
) -> list[Second]:
    """The load doubles after a minute in which `workers` used as many cores as KEDA lets them use."""
    rate = workers * scaling["coresPerWorker"] / service_s
    rates = (rate if at_s < BEFORE_S else 2 * rate for at_s in range(length_s))
    return simulated(service_s, rates, scaling, workers=workers)


def worst_p95_ms(seconds: Sequence[Second]) -> float:
    """The p95 that was kept in 95 of 100 of these seconds."""
    return 1_000 * sorted(second.p95_s for second in seconds)[len(seconds) * 19 // 20]


def table() -> str:
    """The computed part of the page."""
    cpu_ms = cpu_by_role(json.loads(MEASURED.read_text(encoding="utf-8")))
    lines = [
        "| queue | p95 in the minute before | in the minute after | later | workers, each half minute |",
        "|---|---|---|---|---|",
    ]
    for role in BRANCHES:
        seconds = doubled(cpu_ms[role] / 1_000, declared(), 1)
        parts = seconds[:BEFORE_S], seconds[BEFORE_S : 2 * BEFORE_S], seconds[2 * BEFORE_S :]
        p95s = " | ".join(f"{worst_p95_ms(part):.0f} ms" for part in parts)
        lines.append(f"| `{role}` | {p95s} | {' '.join(str(each.wanted) for each in seconds[::30])} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page with the table of the present figures."""
    return COMPUTED.sub(lambda _: table(), PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
