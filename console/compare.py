"""What another configuration would have answered to the last requests.  No search runs: their recorded lists are fused again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from anyio import to_thread
from chorale_client.errors import InvalidRequest, safe_repr

from api.audit import visible_rows
from api.limits import count_cost
from console.pages import Page, Visit
from console.recorded import number_of

_MOST = 500
"""Requests."""


REQUESTS_OF_A_CALL = 20
"""A comparison of more requests counts for more calls of the key: 20 take about 0.15 s of one core."""


async def show(visit: Visit) -> dict[str, Any]:
    n = round(number_of({"n": "100", **visit.parameters}, "n", 1, _MOST))
    await count_cost(visit.request, visit.session.grant, visit.services.redis, n // REQUESTS_OF_A_CALL)
    return await to_thread.run_sync(_compared, visit, n)


def _compared(visit: Visit, n: int) -> dict[str, Any]:
    """Raises InvalidRequest for a wrong parameter."""
    # The planner loads the kinds of stores, as `Visit.pipeline` does.
    from evaluation.replayed_comparison import compare_replayed

    pipeline = visit.pipeline
    configurations = list(pipeline.configurations)
    others = [name for name in configurations if name != pipeline.default_configuration]
    a = _chosen(visit, "a", configurations)
    b = _chosen(visit, "b", configurations) or (others or configurations)[0]
    namespace = visit.parameters.get("namespace")
    rows = visible_rows(visit.session.grant, visit.services, n, namespace=namespace)
    return {
        "form": {"a": a, "b": b, "namespace": namespace, "n": n},
        "configurations": configurations,
        "most": _MOST,
        "requests": len(rows),
        "comparison": asdict(compare_replayed(rows, pipeline, a, b)),
    }


def _chosen(visit: Visit, name: str, known: Sequence[str]) -> str | None:
    """The value of the parameter; None if the address has none.  Raises InvalidRequest, which lists the table."""
    chosen = visit.parameters.get(name)
    if chosen is not None and chosen not in known:
        raise InvalidRequest(f"{name}: no {safe_repr(chosen)}; there are: {', '.join(known)}")
    return chosen


PAGES = (Page("/compare", "Compare", "compare.html", show, ("audit:read",)),)
