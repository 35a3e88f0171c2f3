"""Team-draft interleaving: one page of two rankings, whose clicks say which ranking is better.

Radlinski, Kurup and Joachims, How Does Clickthrough Data Reflect Retrieval Quality?, CIKM 2008.  In each round both teams pick
their best hit that is not on the page yet, and a coin says who picks first.  Differently from there, a round has a winner only
if it can: where both would pick the same hit, it is placed once and belongs to no team, and so does every hit after the end of
one ranking.  So each team has as many hits as the other, but for a page that ends within a round, and none that both show alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import count, islice
from types import MappingProxyType
from typing import Literal, NamedTuple

from chorale_client.wire_names import Stage
from pydantic_core import to_json

from fusion.branch_results import BranchAnswers
from fusion.fuse import fuse_question, unscored_passages
from fusion.fused_hits import FusedHit, FusedQuestion, coverage
from fusion.page import NO_PIN_LOOKUP, PinLookup
from fusion.rankings import Scores
from models.branch_result import StageNote
from models.declarations.fusion_method import Method

Team = Literal["A", "B"]
TEAMS: tuple[Team, Team] = ("A", "B")
"""A is the configuration of the plan, B its rival."""
_WHOLE = 1_000
"""As many hits as a request may show."""


class Slot(NamedTuple):
    side: int
    """0: the hit comes from the ranking of A, 1: of B."""
    place: int
    """In that ranking, from 0."""
    team: Team | None
    """Whose the hit is; None: nobody's."""


def team_draft(a: Sequence[set[str]], b: Sequence[set[str]], coins: Iterator[int]) -> Iterator[Slot]:
    """The hits of the page, in order.  Each hit is given as its ids: its document, and the copies that it stands for.

    A coin is 0 if A picks first and 1 if B does; it is tossed only in rounds whose picks differ.
    """
    rankings, at, placed = (a, b), [0, 0], set[str]()
    while True:
        for side in (0, 1):
            while at[side] < len(rankings[side]) and not placed.isdisjoint(rankings[side][at[side]]):
                at[side] += 1
        remaining = [side for side in (0, 1) if at[side] < len(rankings[side])]
        if not remaining:
            return
        picks: list[tuple[int, Team | None]] = [(remaining[0], None)]
        if len(remaining) == 2 and a[at[0]].isdisjoint(b[at[1]]):
            first = next(coins)
            picks = [(first, TEAMS[first]), (1 - first, TEAMS[1 - first])]
        for side, team in picks:
            placed |= rankings[side][at[side]]
            yield Slot(side, at[side], team)


def coins_of(request_id: str) -> Iterator[int]:
    """0 or 1, without end, and the same ones each time that the request is fused."""
    for block in count():
        for byte in sha256(f"draft {block} {request_id}".encode()).digest():
            yield from (byte >> bit & 1 for bit in range(8))


def fused_question(
    answers: BranchAnswers,
    position: int,
    method_of: Callable[[str], Method],
    *,
    scores: Scores = MappingProxyType({}),
    pin_lookup: PinLookup = NO_PIN_LOOKUP,
    clock: Callable[[], float] | None = None,
) -> FusedQuestion:
    """As `fusion.fuse.fuse_question`, with the method that the plan names.  With a rival, the page is drafted of the rankings of
    both, after boosts, rules and copies; each hit has the score of the ranking that it comes from."""
    plan, request = answers.plan, answers.request
    if plan.rival is None:
        method = method_of(plan.method)
        return fuse_question(answers, position, method, scores=scores, pin_lookup=pin_lookup, clock=clock)
    whole = replace(answers, request=request.model_copy(update={"top_k": _WHOLE}))
    begun_s, rankings = 0.0, list[FusedQuestion]()
    for side in plan.sides:
        begun_s = clock() if clock else 0.0
        answers_of_side = replace(whole, plan=side)
        method = method_of(side.method)
        rankings.append(
            fuse_question(
                answers_of_side, position, method, scores=scores, pin_lookup=pin_lookup, clock=clock
            )
        )
    a, b = ([_ids(hit) for hit in ranking.hits] for ranking in rankings)
    slots = list(islice(team_draft(a, b, coins_of(request.request_id)), request.top_k))
    kinds = (None, plan.rival.method)
    hits = [replace(rankings[side].hits[place], score_kind=kinds[side]) for side, place, _ in slots]
    teams = {
        name: [hit.document_id for hit, slot in zip(hits, slots, strict=True) if slot.team == name]
        for name in TEAMS
    }
    note = StageNote(
        Stage.INTERLEAVE,
        ms=((clock() if clock else 0.0) - begun_s) * 1000,
        n_in=len(a) + len(b),
        n_out=sum(map(len, teams.values())),
        detail=to_json(teams).decode(),
    )
    groups = {branch.name: branch.group for branch in plan.branches}
    return replace(
        rankings[0],
        hits=tuple(hits),
        stages=(*rankings[0].stages, note),
        coverage=coverage(hits, groups),
        ordered_by="interleaved" if any(slot.side for slot in slots) else rankings[0].ordered_by,
    )


def missing_scores(
    answers: BranchAnswers, position: int, method_of: Callable[[str], Method]
) -> dict[str, list[str]]:
    """By branch, the passages whose scores complete its ranking of a question, for the plan or for its rival."""
    missing: dict[str, dict[str, None]] = {}
    for side in answers.plan.sides:
        if side.complete_scores:
            unscored = unscored_passages(replace(answers, plan=side), position, method_of(side.method))
            for branch, passage_ids in unscored.items():
                missing.setdefault(branch, {}).update(dict.fromkeys(passage_ids))
    return {branch: list(passage_ids) for branch, passage_ids in missing.items()}


def _ids(hit: FusedHit) -> set[str]:
    return {hit.document_id, *(copy.document_id for copy in hit.folded)}
