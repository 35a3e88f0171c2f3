"""Pages have the figures that were measured, and what is computed from them; README.md has those of measurements.md."""

from __future__ import annotations

import json
import re
from functools import cache
from itertools import pairwise
from math import ceil

import pytest

from docs.evidence import capacity, cells, latency, scaling
from docs.evidence.capacity import BRANCHES, cpu_by_role
from docs.evidence.scaling import Second, doubled, worst_p95_ms

MEASURED = json.loads(capacity.MEASURED.read_text(encoding="utf-8"))
CPU_MS = cpu_by_role(MEASURED)
SIZING = " ".join(scaling.PAGE.read_text(encoding="utf-8").split())
LIMIT_PER_SECOND = 411
"""Requests of the sweeper of a cell, which may use .6 of a core."""
SERVICE_S = 0.003_54
"""Processor time of a request in a worker of `hyde`, the slowest branch (docs/evidence/capacity.md)."""


def test_the_pages_have_what_their_scripts_compute() -> None:
    pages = {scaling.PAGE: scaling.page(), **latency.pages()}
    for page, text in ((capacity.PAGE, capacity.page()), (capacity.PAGE, cells.page()), *pages.items()):
        assert page.read_text(encoding="utf-8") == text, (
            f"run `make bench`, or the script of docs/evidence that writes {page.name}"
        )


def test_the_simulated_cells_are_bound_by_their_cores_or_by_their_slowest_process() -> None:
    cpu_ms = cpu_by_role({"runs": MEASURED["no_op_runs"]})
    slowest_ms = max(cpu_ms[role] for role in capacity.ONE_A_CELL)
    for count in (1, 2):
        on_one_core = cells.carried(cpu_ms, cells=count, cores=1)
        assert on_one_core == pytest.approx(1_000 / sum(cpu_ms.values()), rel=0.05)
        assert cells.carried(cpu_ms, cells=count, cores=16) <= 1.05 * count * 1_000 / slowest_ms


def test_other_times_change_readme_and_measurements() -> None:
    measured = json.loads(latency.MEASURED.read_text(encoding="utf-8"))
    for run in measured["runs"]:
        if run["name"] == "chord":
            run |= {"p50_ms": 12.345, "requests_per_s": 1234.5}
    pages = {page.name: write(page.read_text("utf-8"), measured) for page, write in latency.PAGES.items()}
    assert "| median of one request | 12.3 ms |" in pages["README.md"]
    assert "| requests a second, 16 in flight | 1,234 |" in pages["README.md"]
    assert "| `chord` | 16 | 12.3 |" in pages["measurements.md"]
    with pytest.raises(ValueError, match=r"README\.md has 0 rows 'median of one request'"):
        latency.readme("no table", measured)


def test_readme_has_the_figures_of_the_attack() -> None:
    pages = {page.name: " ".join(page.read_text(encoding="utf-8").split()) for page in latency.PAGES}
    measured, readme = pages["measurements.md"], pages["README.md"]

    def row(label: str) -> tuple[str, ...]:
        match = re.search(rf"\| {label} \| (\S+) \| (\S+) \| (\S+) \|", measured)
        assert match, label
        return match.groups()

    (requests, *_), (ours, plain, acks_late) = row("requests"), row("not ended a minute after the last")
    in_time, plain_in_time, acks_late_in_time = row("ended within the time limit")
    late = re.search(r"(\d+) ended after their deadline: .*? the worst (\d+) ms", measured)
    assert late
    assert ours == "0"
    for sentence in (
        f"{requests} questions went to plain Celery chords",
        f"**all {requests} ended**",
        f"**{plain} never ended** ({acks_late} with `acks_late`)",
        f"{requests} requests while processes are killed and hung: never ended | {ours} | {plain} ({acks_late}) |",
        f"ended within their time limit | {in_time} | {plain_in_time} ({acks_late_in_time}) |",
        f"{late[1]} of the {requests} ended up to {late[2]} ms later",
    ):
        assert sentence in readme


def test_the_formulas_of_sizing_have_the_measured_processor_times() -> None:
    times = ", ".join(f"`{role}` {CPU_MS[role]:.2f}".replace(" 0.", " .") for role in BRANCHES)
    assert f"{times} ms" in SIZING
    assert f"R × {CPU_MS['caller']:.2f} ms".replace(" 0.", " .") in SIZING
    assert f"R ÷ {LIMIT_PER_SECOND}" in SIZING
    assert ceil(0.6 * 1_000 / CPU_MS["sweeper"]) == LIMIT_PER_SECOND
    assert f"R × {MEASURED['redis_bytes_left_per_request']:,.0f} × 600" in SIZING
    assert f"{MEASURED['audit_rows_per_request']:.0f} rows a request" in SIZING


def test_the_example_of_sizing_is_what_the_formulas_give() -> None:
    passages, requests, numbers, connections = 100_000_000, 1_000, 384, 32
    processes = [f"{ceil(requests * CPU_MS[role] / 1_000 / 0.6)} `{role}`" for role in BRANCHES]
    vectors, edges = passages * 4 * numbers / 1e9, passages * 8 * connections / 1e9
    quantised = passages * (numbers + 8 * connections) / 1e9
    answers = requests * MEASURED["redis_bytes_left_per_request"] * 600 / 1e9
    for sentence in (
        f"{ceil(requests / LIMIT_PER_SECOND)} cells; {', '.join(processes[:-1])} and {processes[-1]}",
        f"{vectors:.0f} GB of vectors and {edges:.0f} GB of edges in Weaviate",
        f"{quantised:.0f} GB in all with `rq`",
        f"{answers:.1f} GB of answers in Redis",
        f"{requests * MEASURED['audit_rows_per_request']:,.0f} audit rows a second",
    ):
        assert sentence in SIZING


@cache
def after_the_load_doubled(workers: int) -> list[Second]:
    return doubled(SERVICE_S, scaling.declared(), workers)


@pytest.mark.parametrize("workers", [1, 3])
def test_with_the_thresholds_of_keda_twice_the_load_keeps_its_p95_after_a_minute(workers: int) -> None:
    seconds = after_the_load_doubled(workers)
    assert worst_p95_ms(seconds[120:]) <= worst_p95_ms(seconds[:60])
    assert worst_p95_ms(seconds[60:120]) < 500


@pytest.mark.parametrize("workers", [1, 3])
def test_under_an_even_load_no_worker_is_ended_and_then_started_again(workers: int) -> None:
    wanted = [second.wanted for second in after_the_load_doubled(workers)]
    rises = [after > before for before, after in pairwise(wanted) if after != before]
    assert any(rises), "twice the load needs more workers"
    assert rises == sorted(rises, reverse=True), "fewer, and then more"
    assert max(wanted) < scaling.declared()["maxReplicas"]
