"""The thresholds by which KEDA starts and ends workers, in the simulation of docs/evidence/scaling.py."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest

from docs.evidence import scaling
from docs.evidence.scaling import Second, doubled, worst_p95_ms

SERVICE_S = 0.003_54
"""Processor time of a request in a worker of `hyde`, the slowest branch (docs/evidence/capacity.md)."""


@cache
def after_the_load_doubled(workers: int) -> list[Second]:
    return doubled(SERVICE_S, scaling.declared(), workers)


@pytest.mark.parametrize("workers", [1, 3])
def test_twice_the_load_keeps_its_p95_after_a_minute(workers: int) -> None:
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


def test_the_page_has_the_table_that_its_script_computes() -> None:
    assert scaling.PAGE.read_text(encoding="utf-8") == scaling.page(), "run `python -m docs.evidence.scaling`"
