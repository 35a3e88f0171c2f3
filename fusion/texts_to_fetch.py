"""Which store has the texts of fused hits."""

from __future__ import annotations

from collections.abc import Container, Iterable

from fusion.fused_hits import FusedHit
from models.plan import Plan


def texts_to_fetch(plan: Plan, hits: Iterable[FusedHit], known: Container[str]) -> dict[str, list[str]]:
    """Passage ids by store, without duplicates: the store of the first branch that chose the passage.

    `known`: the passages whose texts came with the rankings.
    """
    store_of = {branch.name: branch.store for branch in plan.branches}
    wanted: dict[str, dict[str, None]] = {}
    for hit in hits:
        if hit.passage_id not in known:
            chose_it = (name for name, one in hit.branches.items() if one.passage_id == hit.passage_id)
            wanted.setdefault(store_of[next(chose_it)], {})[hit.passage_id] = None
    return {store: list(passage_ids) for store, passage_ids in wanted.items()}
