"""Which hits a page shows: pinned ones first, at most so many of a group, unlike each other, and none after a jump in scores.

Rules of the namespace put documents first and block others.  A hit that exceeds the size of its group is left out, and the
next hits take its place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from chorale_client.request import Grouping, Request
from pydantic_core import to_json

from fusion.candidates import Candidate
from fusion.fused_hits import FusedHit, FusedQuestion, coverage
from models.documents import PassageText
from models.hits import Hit, Ranking
from models.plan import Plan, QuestionRules

NO_RULES = QuestionRules()


@dataclass(frozen=True, slots=True)
class PinLookup:
    """Pinned documents that a store has, and that meet the filters of the request."""

    store: str = ""
    hits: Mapping[str, Hit] = field(default_factory=dict)
    """A hit by document id."""


NO_PIN_LOOKUP = PinLookup()


def rules_at(plan: Plan, position: int) -> QuestionRules:
    """The rules of the question at `position` of `plan.searched`."""
    return plan.rules.get(plan.searched[position], NO_RULES) if plan.rules else NO_RULES


def not_found(rules: QuestionRules, rankings: Iterable[Ranking]) -> list[str]:
    """The pinned documents that no branch has found; a store looks them up."""
    if not rules.pinned:
        return []
    known = {hit.document_id for ranking in rankings for hit in ranking.hits}
    return [document for document in rules.pinned if document not in known]


Placed = tuple[Candidate, float, Mapping[str, float]]
"""A candidate, its score after boosts, and the factors of its boosts by name."""


@dataclass(frozen=True, slots=True)
class Ruled:
    """The candidates of a question after its rules."""

    placed: Sequence[Placed]
    rules: QuestionRules = NO_RULES
    pinned: Sequence[str] = ()
    """The documents of the first candidates."""
    blocked: Sequence[str] = ()
    """The blocked documents that some branch has found."""
    stores: Mapping[str, str] = field(default_factory=dict)
    """The store of each pinned document that is no candidate."""

    @property
    def acted(self) -> tuple[str, ...]:
        """The rules that have changed the answer."""
        rules = self.rules
        names = [rules.pinned[id_] for id_ in self.pinned] + [rules.blocked[id_] for id_ in self.blocked]
        return tuple(dict.fromkeys([*names, *rules.synonyms]))

    def marked(self, hit: FusedHit, place: int) -> FusedHit:
        """The hit made of the candidate at `place`, with the rule that pins it."""
        if place >= len(self.pinned):
            return hit
        document = hit.document_id
        return replace(hit, pinned=self.rules.pinned[document], store=self.stores.get(document))


def pinned_first(
    ranked: Sequence[Placed],
    plan: Plan,
    position: int,
    answered: Mapping[str, Ranking],
    pin_lookup: PinLookup,
    excluded: frozenset[str],
) -> Ruled:
    """The candidates with the pinned documents first.

    A pinned document that is no candidate has the score 0.  One that neither a branch nor `pin_lookup` knows, or that the
    request excludes, is left out: it does not exist, or the filters do not allow it.  `answered` are by branch.
    """
    if (rules := rules_at(plan, position)) is NO_RULES:
        return Ruled(ranked)
    known = {id_: (hit, pin_lookup.store) for id_, hit in pin_lookup.hits.items()}
    for branch in plan.branches:
        for hit in answered[branch.name].hits if branch.name in answered else ():
            known.setdefault(hit.document_id, (hit, branch.store))
    best: dict[str, int] = {}
    for place, (candidate, _, _) in enumerate(ranked):
        best.setdefault(candidate.hit.document_id, place)
    pinned: dict[str, Placed] = {}
    for document in rules.pinned:
        if document in best:
            pinned[document] = ranked[best[document]]
        elif document in known and document not in excluded:
            pinned[document] = Candidate(0.0, known[document][0]._replace(score=0.0), []), 0.0, {}
    pinned_places = {best[document] for document in pinned if document in best}
    rest = (candidate_placed for place, candidate_placed in enumerate(ranked) if place not in pinned_places)
    blocked = [document for document in rules.blocked if document in known]
    stores = {document: known[document][1] for document in pinned if document not in best}
    return Ruled([*pinned.values(), *rest], rules, list(pinned), blocked, stores)


def split_pinned(hits: Sequence[FusedHit]) -> tuple[list[FusedHit], list[FusedHit]]:
    """The pinned hits, and the others."""
    return [hit for hit in hits if hit.pinned], [hit for hit in hits if not hit.pinned]


_ON_THE_HIT = {"document": "document_id", "source_type": "source_type", "published_at": "published_at"}
"""The fields of a hit that are known without its text, by the name of the grouping."""


def needs_metadata(grouping: Grouping) -> bool:
    return grouping.field not in _ON_THE_HIT


def _group_of(hit: FusedHit, field: str, texts: Mapping[str, PassageText]) -> bytes | None:
    """Equal for hits of one group; None for a hit without the field.  A list or an object counts as a whole."""
    value: Any = None
    if (own := _ON_THE_HIT.get(field)) is not None:
        value = getattr(hit, own)
    elif hit.passage_id in texts:
        value = texts[hit.passage_id].metadata.get(field)
    return None if value is None else to_json(value)


def grouped(question: FusedQuestion, grouping: Grouping, texts: Mapping[str, PassageText]) -> FusedQuestion:
    """The question with the best hits of each group, in order; a hit without a group stays.

    Metadata are those of `texts`, by passage id.  A warning says if no hit has the field.
    """
    groups = [_group_of(hit, grouping.field, texts) for hit in question.hits]
    seen: Counter[bytes | None] = Counter()
    remaining = []
    for hit, group in zip(question.hits, groups, strict=True):
        seen[group] += 1
        if hit.pinned or group is None or seen[group] <= grouping.size:
            remaining.append(hit)
    unknown = () if not groups or any(groups) else (f"group_by: no hit has the field {grouping.field!r}",)
    return replace(
        question,
        hits=tuple(remaining),
        removed={**question.removed, "group_by": len(groups) - len(remaining)},
        warnings=(*question.warnings, *unknown),
    )


DIVERSITY_POOL = 50
"""Hits that are compared; the others follow in their order."""


def diversified(
    relevance: Sequence[float], similarity: Sequence[Sequence[float]], diversity: float
) -> list[int]:
    """The places of the hits in their new order.  `similarity` is symmetric; a tie goes to the hit that was before."""
    nearest: list[float] = [0.0] * len(relevance)
    remaining, order = list(range(len(relevance))), list[int]()
    while remaining:
        chosen = max(
            remaining,
            key=lambda place: ((1 - diversity) * relevance[place] - diversity * nearest[place], -place),
        )
        remaining.remove(chosen)
        for place in remaining:
            to_chosen = similarity[chosen][place]
            nearest[place] = max(nearest[place], to_chosen) if order else to_chosen
        order.append(chosen)
    return order


def hits_before_jump(scores: Sequence[float], jumps: int) -> int:
    """The number of the falling `scores` before jump number `jumps`; all if there are fewer jumps."""
    count = len(scores)
    if count < 3 or scores[0] <= scores[-1]:
        return count
    span = scores[0] - scores[-1]
    # Rounded, so that equal steps are equal.
    excess = [
        round((scores[0] - score) / span - place / (count - 1), 9) for place, score in enumerate(scores)
    ]
    for place in range(1, count):
        # The last hit has no hit after it: it is compared with the two before it.
        beside = (excess[place - 1], excess[place + 1 if place < count - 1 else place - 2])
        if excess[place] > max(beside):
            jumps -= 1
            if not jumps:
                return place
    return count


def is_chosen_among_all(request: Request) -> bool:
    """Whether the page is chosen among all candidates after the fusion, or after the reranking."""
    return request.group_by is not None or request.autocut is not None or bool(request.diversity)


def page_of(question: FusedQuestion, request: Request, plan: Plan) -> FusedQuestion:
    """The `top_k` hits after `offset`, without those that `autocut` removes."""
    best, removed = question.hits[: request.offset + request.top_k], question.removed
    if request.autocut is not None:
        pinned, others = split_pinned(best)
        n_before_jump = hits_before_jump([hit.score for hit in others], request.autocut)
        removed = {**removed, "autocut": len(others) - n_before_jump}
        best = (*pinned, *others[:n_before_jump])
    hits: Sequence[FusedHit] = best[request.offset :]
    groups = {branch.name: branch.group for branch in plan.branches}
    return replace(question, hits=tuple(hits), removed=removed, coverage=coverage(hits, groups))
