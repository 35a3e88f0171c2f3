"""Which of two interleaved configurations people prefer, and when that is certain.  Pure.

A request is won by the team of whose hits people chose more; only hits that belong to a team count.  If both were alike, each
would win a decided request with probability 1/2.  The e-value is the mean of the likelihood ratios of all other probabilities,
2^n B(w + 1, l + 1) after w wins and l losses.  It is a martingale of mean 1 then, so that with probability .95 it never reaches 20,
however often somebody looks (Ville 1939, Étude critique de la notion de collectif; Robbins, Annals of Mathematical Statistics 41, 1970).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from math import exp, lgamma, log
from typing import Any

from fusion.interleaving import Team
from records.judgements.impressions import Impression

STOPS_AT = 20.0
"""The e-value of a decision: it is wrong with a probability of at most 1/20."""
CHOSEN_GRADE = 2
"""The grade from which a judged hit counts as chosen; a thumb up counts as 2."""
_LARGEST = 700.0
"""The logarithm of the largest e-value that is output."""


@dataclass(frozen=True, slots=True)
class LiveComparison:
    a: str
    b: str
    shared: int
    """Requests."""
    different: int
    """Shared requests whose page has hits that belong to a team."""
    wins: dict[Team, int]
    """Requests by the team that won them."""
    ties: int
    """Requests of which people chose as many hits of either team, and at least one."""
    e_value: float
    better: Team | None
    """The team that was ahead when the e-value first reached `STOPS_AT`."""
    decided_after: int | None
    """Number of won requests until then."""

    def to_wire(self) -> dict[str, Any]:
        return {**asdict(self), "e_value": round(self.e_value, 4), "stops_at": STOPS_AT}

    @property
    def verdict(self) -> str:
        counts = f"A won {self.wins['A']:,} requests, B {self.wins['B']:,}, {self.ties:,} are ties"
        if self.better is None:
            return f"no decision yet: {counts}, e = {self.e_value:.3g}; decided at {STOPS_AT:g}"
        name = self.a if self.better == "A" else self.b
        return (
            f"{self.better} ({name}) is better, decided after {self.decided_after:,} won requests: {counts}"
        )


def compare_live(a: str, b: str, impressions: Iterable[Impression]) -> LiveComparison:
    """`impressions` in the order of their requests: what comes after a decision does not change it."""
    shared = different = ties = 0
    wins: dict[Team, int] = {"A": 0, "B": 0}
    better: Team | None = None
    decided_after = None
    for impression in impressions:
        shared += 1
        different += bool(impression.teams)
        chosen = chosen_hits(impression)
        if chosen["A"] == chosen["B"]:
            ties += bool(chosen["A"])
            continue
        wins["A" if chosen["A"] > chosen["B"] else "B"] += 1
        if better is None and e_value(wins["A"], wins["B"]) >= STOPS_AT:
            better = "A" if wins["A"] > wins["B"] else "B"
            decided_after = sum(wins.values())
    e = e_value(wins["A"], wins["B"])
    return LiveComparison(a, b, shared, different, wins, ties, e, better, decided_after)


def chosen_hits(impression: Impression) -> Counter[Team]:
    """By team, the hits that people chose: of a judged one the latest judgement counts, of another one a click."""
    clicked, judged = set[str](), dict[str, int]()
    for event in impression.feedback:
        if event.object_id is not None and event.judgement is not None:
            judged[event.object_id] = event.judgement
        elif event.object_id is not None and event.action_name == "click":
            clicked.add(event.object_id)
    return Counter(
        team
        for document, team in impression.teams.items()
        if judged.get(document, CHOSEN_GRADE if document in clicked else 0) >= CHOSEN_GRADE
    )


def e_value(wins: int, losses: int) -> float:
    """2^n B(w + 1, l + 1), for n = w + l; at most e^700."""
    n = wins + losses
    logarithm = n * log(2) + lgamma(wins + 1) + lgamma(losses + 1) - lgamma(n + 2)
    return exp(min(logarithm, _LARGEST))
