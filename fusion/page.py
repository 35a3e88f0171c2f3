"""The page of hits that an answer shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from chorale_client.request import Request

from fusion.autocut import hits_before_jump
from fusion.fused_hits import FusedHit, FusedQuestion, coverage
from fusion.pins import apart
from models.plan import Plan


def is_chosen_late(request: Request) -> bool:
    """Whether the page is chosen among all candidates after the fusion, or after the reranking."""
    return request.group_by is not None or request.autocut is not None or bool(request.diversity)


def page_of(one: FusedQuestion, request: Request, plan: Plan) -> FusedQuestion:
    """The `top_k` hits after `offset`, without those that `autocut` removes."""
    best, removed = one.hits[: request.offset + request.top_k], one.removed
    if request.autocut is not None:
        pinned, others = apart(best)
        kept = hits_before_jump([hit.score for hit in others], request.autocut)
        removed = {**removed, "autocut": len(others) - kept}
        best = (*pinned, *others[:kept])
    hits: Sequence[FusedHit] = best[request.offset :]
    groups = {branch.name: branch.group for branch in plan.branches}
    return replace(one, hits=tuple(hits), removed=removed, coverage=coverage(hits, groups))
