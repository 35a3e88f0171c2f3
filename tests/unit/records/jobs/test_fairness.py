"""Whose segment is sent next: each tenant's share follows its weight, and a newcomer waits for nobody's backlog."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from records.jobs.job import SEGMENT_LINES
from tasks.jobs.feeder import TenantShares


def sent(shares: TenantShares, weights: Mapping[str, float], count: int) -> str:
    """The tenants of the next segments, when all of them have work."""
    order = ""
    for _ in range(count):
        tenant = shares.order(weights)[0]
        shares.serve(tenant, SEGMENT_LINES, weights[tenant])
        order += tenant
    return order


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        pytest.param({"a": 1}, "aaaa", id="alone"),
        pytest.param({"a": 1, "b": 1}, "ababab", id="equal"),
        pytest.param({"a": 1, "b": 1, "c": 1}, "abcabc", id="three"),
        # After each segment, a's service grows by 64 and b's by 32.
        pytest.param({"a": 1, "b": 2}, "abbabb", id="twice the share"),
        pytest.param({"a": 0.5, "b": 1}, "abbabb", id="half the share"),
    ],
)
def test_the_tenant_with_the_least_service_is_next(weights: Mapping[str, float], expected: str) -> None:
    assert sent(TenantShares(), weights, len(expected)) == expected


def test_a_tenant_whose_lines_cost_more_sends_fewer_of_them() -> None:
    shares, costs = TenantShares(), {"costly": 3 * SEGMENT_LINES, "plain": SEGMENT_LINES}
    order = []
    for _ in range(400):
        tenant = shares.order({"costly": 1, "plain": 1})[0]
        shares.serve(tenant, costs[tenant], 1)
        order.append(tenant)
    assert Counter(order) == {"costly": 100, "plain": 300}


@pytest.mark.parametrize("before", [0, 10], ids=["a newcomer", "a tenant without work for a while"])
def test_two_segments_of_a_newcomer_are_next_and_then_it_takes_shares(before: int) -> None:
    shares = TenantShares()
    sent(shares, {"a": 1, "b": 1}, before)
    sent(shares, {"a": 1}, 1_000)
    assert sent(shares, {"a": 1, "b": 1}, 6) == "bbabab"
