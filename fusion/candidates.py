"""Fuses rankings into candidates, best first, and boosts them by authority and recency.

Fused scores have one order on every worker: best first, ties by id.

Fused scores lie close together: a plain factor of 1.3 would lift rank 19 of an RRF list to the top.  Therefore a boosted hit
takes the place that its boosted score earns, but at most `max_places` above its old place.  A hit that the bound lowers, or
that follows such a hit, gets the score of the hit before it; its factor `bound` makes up the difference, so that its
score is still the fused score times the product of its factors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from heapq import heappop, heappush
from itertools import count, islice, repeat
from math import fsum, inf
from typing import NamedTuple

from models.boost_plan import BoostPlan
from models.declarations.fusion_method import BranchRanking, Contribution, Method
from models.hits import Hit

_SPLIT = 2.0**13 + 1


def rounded(scores: Iterable[float]) -> list[float]:
    """The scores rounded to 40 bits (12 digits), so that mathematically equal sums become equal floats.

    Veltkamp's splitting (Dekker 1971), seven times faster than decimal rounding.
    """
    return [(scaled := score * _SPLIT) - (scaled - score) for score in scores]


def significant(score: float) -> float:
    """The score at 12 decimal digits, as answers show it."""
    return float(f"{score:.11e}")


def best_first(scores: Mapping[str, float]) -> list[tuple[str, float]]:
    """(id, rounded score), highest score first, ties by id."""
    ordered = sorted(zip([-score for score in rounded(scores.values())], scores, strict=True))
    return [(id_, -negative) for negative, id_ in ordered]


class Candidate(NamedTuple):
    """A fused document (or passage) before boosts."""

    score: float
    hit: Hit
    """One branch's hit, for the fields that boosts and folding read."""
    entries: list[tuple[BranchRanking, int, Contribution]]
    """Where the rankings have it, by name: (ranking, place from 0, contribution)."""


_new_candidate = partial(tuple.__new__, Candidate)
"""Makes a candidate of (score, hit, entries) in half the time that `Candidate(…)` takes; a request has hundreds."""


def _described(entries: Sequence[tuple[BranchRanking, int, Contribution]]) -> Hit:
    """The hit of the first branch with a content hash, else of the first branch."""
    for ranking, place, _ in entries:
        hit = ranking.hits[place]
        if hit.content_hash is not None:
            return hit
    ranking, place, _ = entries[0]
    return ranking.hits[place]


def _with_more_weight(
    ids: Sequence[str], row: Sequence[Contribution], more: Mapping[str, float]
) -> list[Contribution]:
    return [
        Contribution(weight + more.get(id_, 0.0), value)
        for id_, (weight, value) in zip(ids, row, strict=True)
    ]


def fuse_rankings(rankings: Sequence[BranchRanking], method: Method, k: float) -> list[Candidate]:
    """Fused candidates, best first, ties by id; the order of `rankings` does not matter.

    Hits that only branches of weight 0 found are left out.
    """
    rankings = sorted(rankings, key=lambda ranking: ranking.name)
    by_id: dict[str, list[tuple[BranchRanking, int, Contribution]]] = {}
    for ranking, contributions in zip(rankings, method.contributions(rankings, k), strict=True):
        row = (
            _with_more_weight(ranking.ids, contributions, more)
            if (more := ranking.more_weight)
            else contributions
        )
        for id_, entry in zip(ranking.ids, zip(repeat(ranking), count(), row), strict=False):
            if id_ in by_id:
                by_id[id_].append(entry)
            else:
                by_id[id_] = [entry]
    scores = {
        # A sum is never minus zero, and neither is `x + 0.0`.
        id_: fsum([weight * normalised for _, _, (weight, normalised) in entries])
        if len(entries) > 1
        else entries[0][2][0] * entries[0][2][1] + 0.0
        for id_, entries in by_id.items()
    }
    candidates = []
    for id_, score in best_first(scores):
        entries = by_id[id_]
        # A method may give its last hit 0 whatever the weight of its branch.
        if score or any(weight > 0 for _, _, (weight, _) in entries):
            ranking, place, _ = entries[0]
            hit = ranking.hits[place]
            if hit.content_hash is None:
                hit = _described(entries)
            candidates.append(_new_candidate((score, hit, entries)))
    return candidates


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

    An unknown or unreadable date gives 1, and so does one after `now`.
    """
    published = read_moment(published_at)
    if (
        published is None
        or published > now
        or not boosts.recency_amount
        or boosts.recency_half_life_days <= 0
    ):
        return 1.0
    if boosts.recency_step:
        decay = float(_is_within(boosts.recency_half_life_days, published, now))
    else:
        age_days = (now - published).total_seconds() / _DAY_S
        decay = 2.0 ** -(age_days / boosts.recency_half_life_days)
    return 1.0 + boosts.recency_amount * decay


def _is_within(days: float, published: datetime, now: datetime) -> bool:
    """By dates, whatever the time of day.  365 days are twelve months of the calendar, also over a leap day."""
    years, rest = divmod(days, 365)
    since = now - timedelta(days=rest)
    return (since.year - years, since.month, since.day) <= (published.year, published.month, published.day)


def boost_factors(
    boosts: BoostPlan, source_type: str | None, published_at: str | None, now: datetime
) -> dict[str, float]:
    """The factors of one hit by name, without factors of 1.  `now` has a zone."""
    factors = {
        AUTHORITY: boosts.authority.get(source_type.casefold(), 1.0) if source_type else 1.0,
        RECENCY: recency_factor(boosts, published_at, now),
    }
    return {name: factor for name, factor in factors.items() if factor != 1.0}


def bounded_order(
    scores: Sequence[float], factors: Sequence[float], max_places: int | None
) -> list[tuple[int, float, float]]:
    """The order after boosting: (old place from 0, score, bound), with falling scores.

    `scores` fall, `factors` are >= 0.  No hit rises by more than `max_places`, a larger factor never lowers a hit, and
    equal boosted scores keep their order.  `bound` is the share of the boosted score that remains: below 1 for a hit that
    `max_places` lowers, or that follows one.
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
