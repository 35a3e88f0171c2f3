"""Boosts by authority and recency: factors on the fused score that lift a hit by a few places at most.

Fused scores lie close together: a plain factor of 1.3 would lift rank 19 of an RRF list to the top.  Therefore a hit
takes the place that its boosted score earns, but at most `max_places` above its old place.  A hit that is held back, or
that follows such a hit, gets the score of the hit before it; its factor `bound` makes up the difference, so that its
score is still the fused score times the product of its factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from heapq import heappop, heappush
from itertools import islice
from math import inf

from fusion.order import rounded
from models.plan import BoostPlan

AUTHORITY, RECENCY, BOUND = "authority", "recency", "bound"

_DAY_S = 86_400.0


def read_moment(text: str | None) -> datetime | None:
    """An ISO 8601 date or time; UTC without a zone, midnight without a time; None if it is unreadable."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except (ValueError, TypeError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def recency_factor(boosts: BoostPlan, published_at: str | None, now: datetime) -> float:
    """`1 + a * 2^(-age/half_life)`; with `recency_step`, 1 + a up to the half-life and 1 after it.

    A date after `now` has age 0.  An unknown or unreadable date gives 1.
    """
    published = read_moment(published_at)
    if published is None or not boosts.recency_amount or boosts.recency_half_life_days <= 0:
        return 1.0
    age_days = max(0.0, (now - published).total_seconds() / _DAY_S)
    half_lives = age_days / boosts.recency_half_life_days
    decay = float(half_lives <= 1) if boosts.recency_step else 2.0**-half_lives
    return 1.0 + boosts.recency_amount * decay


def boost_factors(
    boosts: BoostPlan, source_type: str | None, published_at: str | None, now: datetime
) -> dict[str, float]:
    """The factors of one hit by name, without factors of 1.  `now` has a zone."""
    factors = {
        AUTHORITY: boosts.authority.get(source_type, 1.0) if source_type else 1.0,
        RECENCY: recency_factor(boosts, published_at, now),
    }
    return {name: factor for name, factor in factors.items() if factor != 1.0}


def bounded_order(
    scores: Sequence[float], factors: Sequence[float], max_places: int | None
) -> list[tuple[int, float, float]]:
    """The order after boosting: (old place from 0, score, bound), with falling scores.

    `scores` fall, `factors` are >= 0.  No hit rises by more than `max_places`, a larger factor never lowers a hit, and
    equal boosted scores keep their order.  `bound` is the share of the boosted score that is left: 1 unless the hit was
    held back, or follows one that was.
    """
    boosted = rounded(score * factor for score, factor in zip(scores, factors, strict=True))
    waiting: list[tuple[float, int]] = []
    order: list[tuple[int, float, float]] = []
    last = inf
    reach = len(scores) if max_places is None else max_places
    arriving = enumerate(boosted)
    for before, score in islice(arriving, reach):
        heappush(waiting, (-score, before))
    for _ in boosted:
        for before, score in islice(arriving, 1):
            heappush(waiting, (-score, before))
        negative, before = heappop(waiting)
        if -negative <= last:
            last = -negative
            order.append((before, last, 1.0))
        else:
            order.append((before, last, last / -negative))
    return order
