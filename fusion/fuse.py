"""The whole pure pipeline for one question: collapse, fuse, boost, fold, and the requested page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from math import prod

from chorale_client.request import Request
from chorale_client.words import Reason, Stage, StageStatus

from fusion.answered import ranking_of
from fusion.boosts import BOUND, boost_factors, bounded_order, read_moment
from fusion.candidates import Candidate, fuse_rankings
from fusion.collapse import collapse_ranking, unit_ids
from fusion.fold import Folded, fold
from fusion.fused_hits import BranchScore, FusedHit, FusedQuestion, coverage
from fusion.order import significant
from fusion.rerank import shown_range
from models.envelope import Envelope, StageNote
from models.fusion_method import BranchRanking, Method
from models.hits import Ranking
from models.plan import BoostPlan, Plan


class _Notes:
    """The stages' notes; milliseconds are 0 without a clock."""

    def __init__(self, clock: Callable[[], float] | None) -> None:
        self._clock = clock
        self._last_s = clock() if clock else 0.0
        self.notes: list[StageNote] = []

    def add(self, stage: str, n_in: int, n_out: int) -> None:
        now_s = self._clock() if self._clock else 0.0
        self.notes.append(StageNote(stage, StageStatus.OK, 1_000 * (now_s - self._last_s), n_in, n_out))
        self._last_s = now_s

    def skip(self, stage: str) -> None:
        self.notes.append(StageNote(stage, StageStatus.SKIPPED, detail=Reason.NOT_DECLARED))


def _multipliers(candidates: Sequence[Candidate], boosts: BoostPlan, now: datetime) -> list[float]:
    """The product of each candidate's factors."""
    known: dict[tuple[str | None, str | None], float] = {}
    multipliers = []
    for _, hit, _ in candidates:
        described = (hit.source_type, hit.published_at)
        if described not in known:
            known[described] = prod(boost_factors(boosts, *described, now).values())
        multipliers.append(known[described])
    return multipliers


def _boosted_order(
    candidates: Sequence[Candidate], boosts: BoostPlan | None, now: datetime | None, notes: _Notes
) -> list[tuple[int, float, float]]:
    """The order that `bounded_order` returns; without boosts, the fused order."""
    if boosts is None or now is None:
        notes.skip(Stage.BOOST)
        return [(place, candidate.score, 1.0) for place, candidate in enumerate(candidates)]
    multipliers = _multipliers(candidates, boosts, now)
    order = bounded_order([candidate.score for candidate in candidates], multipliers, boosts.max_places)
    notes.add(Stage.BOOST, len(candidates), len(candidates))
    return order


def _factors(
    candidate: Candidate, boosts: BoostPlan | None, now: datetime | None, bound: float
) -> dict[str, float]:
    hit = candidate.hit
    factors = boost_factors(boosts, hit.source_type, hit.published_at, now) if boosts and now else {}
    return factors if bound == 1.0 else {**factors, BOUND: bound}


def _fused_hit(
    candidate: Candidate, score: float, boosts: dict[str, float], folded: Sequence[Folded]
) -> FusedHit:
    branches: dict[str, BranchScore] = {}
    earned: dict[str, float] = {}
    for ranking, place, (weight, normalised) in candidate.found:
        hit = ranking.hits[place]
        contribution = weight * normalised
        branches[ranking.name] = BranchScore(
            place + 1, hit.score, normalised, weight, contribution, hit.passage_id
        )
        earned[hit.passage_id] = earned.get(hit.passage_id, 0.0) + contribution
    return FusedHit(
        document_id=candidate.hit.document_id,
        passage_id=min(earned, key=lambda passage_id: (-significant(earned[passage_id]), passage_id)),
        score=significant(score),
        branches=branches,
        boosts=boosts,
        folded=tuple(folded),
        source_type=candidate.hit.source_type,
        published_at=candidate.hit.published_at,
    )


def _collapsed(plan: Plan, answered: Mapping[str, Ranking | None], request: Request) -> list[BranchRanking]:
    """A ranking for each branch of the plan, empty where it did not answer."""
    excluded = frozenset(request.exclude_ids)
    rankings = []
    for branch in plan.branches:
        given = answered[branch.name] or Ranking()
        hits = collapse_ranking(given, branch.depth, fuse_by=request.fuse_by, exclude_ids=excluded).hits
        ids = unit_ids(hits, request.fuse_by)
        rankings.append(BranchRanking(branch.name, branch.group, branch.weight, ids, hits))
    return rankings


def fuse_question(
    plan: Plan,
    envelopes: Mapping[str, Envelope],
    position: int,
    request: Request,
    method: Method,
    *,
    clock: Callable[[], float] | None = None,
) -> FusedQuestion:
    """Fuse the branches' answers to one question into its page, or into the hits that a reranker makes the page from.

    `method` is the one that `plan.method` names.  `position` is the question's place in `plan.asked`, and therefore in
    each envelope's rankings.  `envelopes` are by branch name; a branch that failed or has none contributes nothing.
    `clock` gives seconds and is read only for the milliseconds of the stages.
    """
    notes = _Notes(clock)
    answered = {branch.name: ranking_of(envelopes.get(branch.name), position) for branch in plan.branches}
    given = [ranking for ranking in answered.values() if ranking]
    rankings = _collapsed(plan, answered, request)
    n_given, n_ranked = sum(len(one.hits) for one in given), sum(len(one.ids) for one in rankings)
    notes.add(Stage.COLLAPSE, n_given, n_ranked)

    candidates = fuse_rankings(rankings, method, plan.k)
    notes.add(Stage.FUSE, n_ranked, len(candidates))

    boosts, now = None if request.boosts == "off" else plan.boosts, read_moment(plan.now)
    order = _boosted_order(candidates, boosts, now, notes)
    ordered = [candidates[before] for before, _, _ in order]
    if plan.fold:
        kept = fold([candidate.hit for candidate in ordered])
        notes.add(Stage.FOLD, len(candidates), len(kept))
    else:
        kept = [(place, []) for place in range(len(ordered))]
        notes.skip(Stage.FOLD)

    first, last = shown_range(request, plan)
    hits = []
    for place, folded in kept[first:last]:
        _, score, bound = order[place]
        factors = _factors(ordered[place], boosts, now, bound)
        hits.append(_fused_hit(ordered[place], score, factors, folded))
    known_totals = [ranking.total_matches for ranking in given if ranking.total_matches is not None]
    return FusedQuestion(
        hits=tuple(hits),
        stages=tuple(notes.notes),
        total_matches=max([len(candidates), *known_totals]),
        coverage=coverage(hits, {branch.name: branch.group for branch in plan.branches}),
        warnings=tuple(dict.fromkeys(line for ranking in given for line in ranking.warnings)),
        texts={name: text for ranking in given for name, text in ranking.texts.items()},
    )
