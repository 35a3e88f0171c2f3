"""Whose segment is sent next: each tenant's share of the work follows its weight.  Work is counted in ordinary lines.

Start-time fair queueing (Goyal, Vin and Cheng, 1996): the tenant with the least service, divided by its weight, is next.  A
tenant that comes later starts a segment below the least service of the others: its first two segments are next, since
segments of the others wait in the queue already, and it does not catch up.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, nextafter

from jobs.job import SEGMENT_LINES


class Turns:
    """How much each tenant that has work was served."""

    def __init__(self) -> None:
        self._served: dict[str, float] = {}

    def order(self, weights: Mapping[str, float]) -> list[str]:
        """The tenants that have work now, the next one first.  `weights` has their weights; a tenant that is absent has no
        work, and is forgotten."""
        known = [served for tenant, served in self._served.items() if tenant in weights]
        start = nextafter(min(known) - SEGMENT_LINES, -inf) if known else 0.0
        self._served = {tenant: self._served.get(tenant, start) for tenant in weights}
        return sorted(weights, key=lambda tenant: (self._served[tenant], tenant))

    def serve(self, tenant: str, lines: float, weight: float) -> None:
        """Count ordinary lines that were sent for a tenant of the last `order` (`models.plan.ordinary_lines`)."""
        self._served[tenant] += lines / weight
