"""The whole pure pipeline for one question: collapse, fuse, boost, fold, and the requested page."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import fsum, prod
from types import MappingProxyType

from chorale_client.limits import MAX_DEPTH
from chorale_client.request import Request, Thresholds
from chorale_client.wire_names import Stage, Warned

from fusion.branch_results import BranchAnswers, StageNotes, ranking_of
from fusion.candidates import (
    BOUND,
    Candidate,
    boost_factors,
    bounded_order,
    fuse_rankings,
    read_moment,
    significant,
)
from fusion.conditions import (
    FUSED_THRESHOLDS,
    above_branch_scores,
    above_fused_score,
    attainable,
    dropped_filters,
    relaxable_thresholds,
    without_threshold,
)
from fusion.confidence import signals_of
from fusion.deduplication import Duplicate, deduplicate
from fusion.fused_hits import BranchScore, FusedHit, FusedQuestion, coverage
from fusion.page import NO_PIN_LOOKUP, NO_RULES, PinLookup, Placed, Ruled, pinned_first, rules_at
from fusion.question_terms import question_type
from fusion.rankings import Scores, collapse_ranking, completed, reliability, unit_ids, unscored
from fusion.rerank import needed_range
from models.boost_plan import BoostPlan
from models.declarations.fusion_method import BranchRanking, Method
from models.hits import Ranking
from models.plan import Plan


def _boosted(
    candidates: Sequence[Candidate], boosts: BoostPlan | None, now: datetime | None, notes: StageNotes
) -> list[Placed]:
    """The candidates in their order after boosts; without boosts, in the fused order."""
    if boosts is None or now is None:
        notes.skip(Stage.BOOST)
        return [(candidate, candidate.score, {}) for candidate in candidates]
    known: dict[tuple[str | None, str | None], dict[str, float]] = {}
    factors = []
    for _, hit, _ in candidates:
        described = (hit.source_type, hit.published_at)
        if described not in known:
            known[described] = boost_factors(boosts, *described, now)
        factors.append(known[described])
    order = bounded_order(
        [candidate.score for candidate in candidates],
        [prod(each.values()) for each in factors],
        boosts.max_places,
    )
    notes.add(Stage.BOOST, len(candidates), len(candidates))
    return [
        (candidates[at], score, factors[at] if bound == 1.0 else {**factors[at], BOUND: bound})
        for at, score, bound in order
    ]


def _folded(
    ordered: Sequence[Candidate], plan: Plan, notes: StageNotes
) -> Sequence[tuple[int, Sequence[Duplicate]]]:
    """The place of each candidate that stays, with the copies that it stands for."""
    if not plan.fold:
        notes.skip(Stage.FOLD)
        return [(place, ()) for place in range(len(ordered))]
    unique = deduplicate([candidate.hit for candidate in ordered])
    notes.add(Stage.FOLD, len(ordered), len(unique))
    return unique


def _fused_hit(
    candidate: Candidate, score: float, boosts: Mapping[str, float], folded: Sequence[Duplicate]
) -> FusedHit:
    branches: dict[str, BranchScore] = {}
    earned: dict[str, float] = {}
    for ranking, place, (weight, normalised) in candidate.entries:
        hit = ranking.hits[place]
        contribution = weight * normalised
        is_retrieved = ranking.n_retrieved is None or place < ranking.n_retrieved
        branches[ranking.name] = BranchScore(
            place + 1 if is_retrieved else 0, hit.score, normalised, weight, contribution, hit.passage_id
        )
        earned[hit.passage_id] = earned.get(hit.passage_id, 0.0) + contribution
    return FusedHit(
        document_id=candidate.hit.document_id,
        passage_id=min(
            earned,
            key=lambda passage_id: (-significant(earned[passage_id]), passage_id),
            default=candidate.hit.passage_id,
        ),
        score=significant(score),
        branches=branches,
        boosts=boosts,
        folded=tuple(folded),
        source_type=candidate.hit.source_type,
        published_at=candidate.hit.published_at,
    )


def collapsed(answers: BranchAnswers, position: int, method: Method) -> list[BranchRanking]:
    """A ranking for each branch of the plan, empty where it did not answer this question."""
    request, plan = answers.request, answers.plan
    excluded = frozenset((*request.excluded_ids, *rules_at(plan, position).blocked))
    weights: Mapping[str, float] = {}
    if plan.weights_by_type:
        kind = question_type(request.questions[plan.searched[position]].text)
        weights = plan.weights_by_type.get(kind, {})
    rankings = []
    whole: dict[str, tuple[str, ...]] = {}
    for branch in plan.branches:
        ranking = ranking_of(answers.branch_results.get(branch.name), position) or Ranking()
        depth = branch.depth - plan.spare
        hits = collapse_ranking(ranking, depth, fuse_by=request.fuse_by, exclude_ids=excluded).hits
        weight = weights.get(branch.name, branch.weight)
        if method.weighs_by_language and not plan.trust_vectors:
            weight *= reliability(ranking.known_words, by_rank=not method.uses_scores)
        rankings.append(
            BranchRanking(
                branch.name,
                branch.group,
                weight,
                unit_ids(hits, request.fuse_by),
                hits,
                branch.floor,
                kind=branch.kind,
                scores=branch.scores,
                half=branch.half,
            )
        )
        if ranking.whole and weight > 0:
            having = tuple([hit for hit in ranking.hits if hit.passage_id in ranking.whole])
            whole[branch.name] = unit_ids(having, request.fuse_by)
    if not method.weighs_by_language:
        return rankings
    # As much as all branches together can give another document.
    most = fsum([ranking.weight for ranking in rankings])
    return [
        replace(ranking, more_weight=dict.fromkeys(whole[ranking.name], most))
        if ranking.name in whole
        else ranking
        for ranking in rankings
    ]


def unscored_passages(answers: BranchAnswers, position: int, method: Method) -> dict[str, list[str]]:
    """By branch, the passages whose scores complete its ranking of a question: those that only other branches found."""
    rankings, request = collapsed(answers, position, method), answers.request
    if "thresholds.min_branch_score" not in request.relax:
        rankings = above_branch_scores(rankings, request.thresholds)
    return {
        name: list(dict.fromkeys(hit.passage_id for hits in others.values() for hit in hits))
        for name, others in unscored(rankings).items()
    }


@dataclass(frozen=True, slots=True)
class _Rankings:
    """The collapsed rankings of one question, and what fuses them."""

    rankings: Sequence[BranchRanking]
    answered: Collection[str]
    plan: Plan
    method: Method
    scores: Scores

    def fused(self, thresholds: Thresholds, notes: StageNotes) -> tuple[list[Candidate], int]:
        """The candidates above the thresholds, and how many there were before `min_fused_score`."""
        rankings, k = self.rankings, self.plan.k
        n_ranked = sum(len(ranking.ids) for ranking in rankings)
        if thresholds.min_branch_score:
            rankings = above_branch_scores(rankings, thresholds)
            n_before, n_ranked = n_ranked, sum(len(ranking.ids) for ranking in rankings)
            notes.remove(Stage.THRESHOLD, "min_branch_score", n_before, n_ranked)
        if self.plan.complete_scores:
            rankings = completed(rankings, self.scores)
        candidates = fuse_rankings(rankings, self.method, k)
        n_fused = len(candidates)
        notes.add(Stage.FUSE, n_ranked, n_fused)
        if (lowest := thresholds.min_fused_score) is not None:
            best = attainable(rankings, self.answered, self.method, k, candidates)
            candidates = above_fused_score(candidates, lowest, best)
            notes.remove(Stage.THRESHOLD, "min_fused_score", n_fused, len(candidates))
        return candidates, n_fused

    def fused_relaxed(
        self, request: Request, notes: StageNotes
    ) -> tuple[list[Candidate], int, tuple[str, ...]]:
        """As `fused`, and the thresholds of `relax` that were dropped because nothing was above them."""
        before, relaxed = len(notes.notes), tuple[str, ...]()
        thresholds = request.thresholds or Thresholds()
        candidates, n_fused = self.fused(thresholds, notes)
        for name in relaxable_thresholds(request, FUSED_THRESHOLDS):
            if candidates:
                break
            del notes.notes[before:], notes.removed[name]
            thresholds, relaxed = without_threshold(thresholds, name), (*relaxed, f"thresholds.{name}")
            candidates, n_fused = self.fused(thresholds, notes)
        return candidates, n_fused, relaxed if candidates else ()


def _note_rules(ruled: Ruled, notes: StageNotes) -> None:
    rules = ruled.rules
    if ruled.blocked:
        notes.removed["blocked"] = len(ruled.blocked)
    if rules is not NO_RULES:
        acted = len(ruled.pinned) + len(ruled.blocked) + len(rules.also)
        notes.add(Stage.RULES, len(rules.pinned) + len(rules.blocked) + len(rules.also), acted)


def _total_matches(rankings: Sequence[Ranking], n_fused: int, blocked: int) -> int:
    totals = [ranking.total_matches for ranking in rankings if ranking.total_matches is not None]
    return max([n_fused, *(total - blocked for total in totals)])


def _end_warning(
    request: Request, rankings: Sequence[BranchRanking], answered: Mapping[str, Ranking], n_hits: int
) -> tuple[str, ...]:
    """For a page on which the hits end, although a branch has documents below the depth of the request."""
    has_more = any(
        len(ranking.ids) >= request.effective_depth < MAX_DEPTH
        and answered[ranking.name].total_matches != len(ranking.ids)
        for ranking in rankings
    )
    # Thresholds remove what is below as well.
    if not has_more or request.thresholds or n_hits >= request.offset + request.top_k:
        return ()
    return (
        f"{Warned.DEPTH}: the {n_hits} hits of this depth end here, and the branches have more; the same larger "
        "`depth` on every page shows them",
    )


def fuse_question(
    answers: BranchAnswers,
    position: int,
    method: Method,
    *,
    scores: Scores = MappingProxyType({}),
    pin_lookup: PinLookup = NO_PIN_LOOKUP,
    clock: Callable[[], float] | None = None,
) -> FusedQuestion:
    """Fuse the branches' answers to one question into its page, or into the hits that a reranker makes the page from.

    `method` is the method of the plan.  `position` is the question's place in `plan.searched`, and therefore in each
    branch result's rankings.  A branch that failed or has no result contributes nothing.  `scores`, for a plan with
    `complete_scores`, are those of passages that only other branches found.  `pin_lookup` has the pinned documents
    that no branch found.  `clock` gives seconds, and is read only for the milliseconds of the stages.
    """
    request, plan, notes = answers.request, answers.plan, StageNotes(clock)
    answered = {
        branch.name: ranking
        for branch in plan.branches
        if (ranking := ranking_of(answers.branch_results.get(branch.name), position)) is not None
    }
    retrieved = list(answered.values())
    rankings = collapsed(answers, position, method)
    n_retrieved = sum(len(ranking.hits) for ranking in retrieved)
    n_ranked = sum(len(ranking.ids) for ranking in rankings)
    notes.add(Stage.COLLAPSE, n_retrieved, n_ranked)
    fusing = _Rankings(rankings, answered, plan, method, scores)
    candidates, n_fused, dropped = fusing.fused_relaxed(request, notes)

    boosts, now = None if request.boosts == "off" else plan.boosts, read_moment(plan.now)
    ranked = _boosted(candidates, boosts, now, notes)
    ruled = pinned_first(ranked, plan, position, answered, pin_lookup, frozenset(request.excluded_ids))
    _note_rules(ruled, notes)
    unique = _folded([candidate for candidate, _, _ in ruled.placed], plan, notes)

    page = unique[slice(*needed_range(request, plan))]
    hits = [ruled.marked(_fused_hit(*ruled.placed[place], folded), place) for place, folded in page]
    return FusedQuestion(
        hits=tuple(hits),
        stages=tuple(notes.notes),
        total_matches=_total_matches(retrieved, n_fused, notes.removed.get("blocked", 0)),
        ordered_by="pinned" if ruled.pinned else "score",
        removed=notes.removed,
        relaxed=(*dropped_filters(request, retrieved), *dropped),
        rules=(*ruled.acted, *([plan.weights_rule] if plan.weights_rule else ())),
        signals=signals_of(rankings, answered),
        coverage=coverage(hits, {branch.name: branch.group for branch in plan.branches}),
        warnings=(
            *dict.fromkeys(line for ranking in retrieved for line in ranking.warnings),
            *_end_warning(request, rankings, answered, len(unique)),
        ),
        # Stores of one index may find the same passage: its longest text counts.
        texts=dict(
            sorted(
                (pair for ranking in retrieved for pair in ranking.texts.items()),
                key=lambda pair: len(pair[1].text),
            )
        ),
    )
