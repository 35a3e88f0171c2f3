"""docs/evidence/capacity.md: its tables are what its scripts compute from the measured figures."""

from __future__ import annotations

import json

import pytest

from docs.evidence import capacity, cells


def test_the_page_has_the_table_that_its_script_computes() -> None:
    assert capacity.PAGE.read_text(encoding="utf-8") == capacity.page(), (
        "run `python -m docs.evidence.capacity`"
    )


def test_the_page_has_the_table_that_is_simulated() -> None:
    assert capacity.PAGE.read_text(encoding="utf-8") == cells.page(), "run `python -m docs.evidence.cells`"


def test_the_simulated_cells_are_bound_by_their_cores_or_by_their_slowest_process() -> None:
    measured = json.loads(capacity.MEASURED.read_text(encoding="utf-8"))
    cpu_ms = capacity.cpu_by_role({"runs": measured["no_op_runs"]})
    slowest_ms = max(cpu_ms[role] for role in capacity.ONE_A_CELL)
    for count in (1, 2):
        on_one_core = cells.carried(cpu_ms, cells=count, cores=1)
        assert on_one_core == pytest.approx(1_000 / sum(cpu_ms.values()), rel=0.05)
        assert cells.carried(cpu_ms, cells=count, cores=16) <= 1.05 * count * 1_000 / slowest_ms
