"""Drops conditions of a request, one after another, for a question that finds nothing with them (`relax`).

A filter is dropped by the branches: one whose search finds nothing searches again without the first filter of `relax`, then
without the second, and so on.  `least_relaxed` then keeps, for each question, only the rankings that dropped least; so a
filter is dropped if no branch finds anything with it.  A threshold is dropped where it has removed every hit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from chorale_client.request import RELAXABLE_FILTER, Request, Thresholds

from models.envelope import Envelope
from models.hits import Ranking

FUSED_THRESHOLDS = ("min_branch_score", "min_fused_score")
_THRESHOLD = "thresholds."


def relaxable_filters(request: Request) -> tuple[str, ...]:
    """The filters of `relax`, in order, each once."""
    return tuple(name for name in dict.fromkeys(request.relax) if name.startswith(RELAXABLE_FILTER))


def without_filters(request: Request, count: int) -> Request:
    """The request without the first `count` filters of `relax`."""
    dropped = {name.removeprefix(RELAXABLE_FILTER) for name in relaxable_filters(request)[:count]}
    kept = {field: condition for field, condition in request.filters.items() if field not in dropped}
    return request.model_copy(update={"filters": kept})


def relaxable_thresholds(request: Request, names: Sequence[str]) -> list[str]:
    """Those of `names` that `relax` has, in its order, each once."""
    conditions = dict.fromkeys(request.relax)
    given = [name.removeprefix(_THRESHOLD) for name in conditions if name.startswith(_THRESHOLD)]
    return [name for name in given if name in names]


def without_threshold(request: Request, name: str) -> Request:
    thresholds = request.thresholds or Thresholds()
    without = thresholds.model_copy(
        update={name: Thresholds.model_fields[name].get_default(call_default_factory=True)}
    )
    return request.model_copy(update={"thresholds": without})


def least_relaxed(envelopes: Mapping[str, Envelope]) -> Mapping[str, Envelope]:
    """The envelopes, with only those rankings for each question that dropped the fewest filters."""
    if not any(one.relaxed for envelope in envelopes.values() for one in envelope.rankings):
        return envelopes
    least: dict[int, int] = {}
    for envelope in envelopes.values():
        for place, one in enumerate(envelope.rankings):
            if one.hits:
                least[place] = min(one.relaxed, least.get(place, one.relaxed))
    return {
        name: replace(
            envelope,
            rankings=tuple(
                one if one.relaxed <= least.get(place, 0) else Ranking()
                for place, one in enumerate(envelope.rankings)
            ),
        )
        for name, envelope in envelopes.items()
    }


def dropped_filters(request: Request, rankings: Sequence[Ranking]) -> tuple[str, ...]:
    """The filters without which the rankings of `least_relaxed` were found."""
    return relaxable_filters(request)[: max((one.relaxed for one in rankings), default=0)]
