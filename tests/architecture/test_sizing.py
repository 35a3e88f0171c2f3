"""docs/evidence/sizing.md: its figures are the measured ones, and its example is what its formulas give."""

from __future__ import annotations

import json
from math import ceil

from docs.evidence.capacity import BRANCHES, MEASURED, cpu_by_role
from docs.evidence.scaling import PAGE

TEXT = " ".join(PAGE.read_text(encoding="utf-8").split())
MEASUREMENTS = json.loads(MEASURED.read_text(encoding="utf-8"))
CPU_MS = cpu_by_role(MEASUREMENTS)
LIMIT_PER_SECOND = 411
"""Requests of the sweeper of a cell, which may use .6 of a core."""


def test_the_formulas_have_the_measured_processor_times() -> None:
    times = ", ".join(f"`{role}` {CPU_MS[role]:.2f}".replace(" 0.", " .") for role in BRANCHES)
    assert f"{times} ms" in TEXT
    assert f"R × {CPU_MS['caller']:.2f} ms".replace(" 0.", " .") in TEXT
    assert f"R ÷ {LIMIT_PER_SECOND}" in TEXT
    assert ceil(0.6 * 1_000 / CPU_MS["sweeper"]) == LIMIT_PER_SECOND
    assert f"R × {MEASUREMENTS['redis_bytes_left_per_request']:,.0f} × 600" in TEXT
    assert f"{MEASUREMENTS['audit_rows_per_request']:.0f} rows a request" in TEXT


def test_the_example_is_what_the_formulas_give() -> None:
    passages, requests, numbers, connections = 100_000_000, 1_000, 384, 32
    processes = [f"{ceil(requests * CPU_MS[role] / 1_000 / 0.6)} `{role}`" for role in BRANCHES]
    assert (
        f"{ceil(requests / LIMIT_PER_SECOND)} cells; {', '.join(processes[:-1])} and {processes[-1]}" in TEXT
    )
    vectors, edges = passages * 4 * numbers / 1e9, passages * 8 * connections / 1e9
    quantised = passages * (numbers + 8 * connections) / 1e9
    assert f"{vectors:.0f} GB of vectors and {edges:.0f} GB of edges in Weaviate" in TEXT
    assert f"{quantised:.0f} GB in all with `rq`" in TEXT
    answers = requests * MEASUREMENTS["redis_bytes_left_per_request"] * 600 / 1e9
    assert f"{answers:.1f} GB of answers in Redis" in TEXT
    assert f"{requests * MEASUREMENTS['audit_rows_per_request']:,.0f} audit rows a second" in TEXT
