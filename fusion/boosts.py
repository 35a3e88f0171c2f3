"""Authority by source type and recency: factors on the fused score that lift a hit a few places at most.

Fused scores lie close together, so a plain factor of 1.3 lifts rank 19 of an RRF list to the top.  Here a hit
takes the best place that its boosted score earns, but none more than `max_places` above its place before.
A hit that is held back, or that follows one, shows the score of the hit before it: the factor `bound` on it
says by how much, so that its score stays the fused score times the product of its factors.
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
    """An ISO 8601 moment; UTC when it has no zone, midnight when it has no time; None if unreadable."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except (ValueError, TypeError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def recency_factor(boosts: BoostPlan, published_at: str | None, now: datetime) -> float:
    """`1 + a * 2^(-age/half_life)`, or with `recency_step` 1 + a up to the half-life and 1 after it.

    An age below 0 (a date after `now`) counts as 0; 1 if the date is unknown or unreadable.
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
    """The factors of one hit by name; those that are 1 are left out.  `now` has a zone."""
    factors = {
        AUTHORITY: boosts.authority.get(source_type, 1.0) if source_type else 1.0,
        RECENCY: recency_factor(boosts, published_at, now),
    }
    return {name: factor for name, factor in factors.items() if factor != 1.0}


def bounded_order(
    scores: Sequence[float], factors: Sequence[float], max_places: int | None
) -> list[tuple[int, float, float]]:
    """The order after boosting: (place before, from 0; score; bound), scores falling.

    `scores` fall, `factors` are >= 0.  No hit ends more than `max_places` above its place before, and a
    larger factor never puts a hit lower.  Equal boosted scores keep the order they had.  `bound` is how much
    of the boosted score is left: 1 unless the hit was held back, or follows one that was.
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
