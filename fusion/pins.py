"""Puts the documents first that the rules of a namespace pin to a question, and counts those that they block."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fusion.candidates import Candidate
from fusion.fused_hits import FusedHit
from models.hits import Hit, Ranking
from models.plan import Plan, QuestionRules

NO_RULES = QuestionRules()


@dataclass(frozen=True, slots=True)
class Looked:
    """Pinned documents that a store has, and that meet the filters of the request."""

    store: str = ""
    hits: Mapping[str, Hit] = field(default_factory=dict)
    """A hit by document id."""


NOT_LOOKED = Looked()


def rules_at(plan: Plan, position: int) -> QuestionRules:
    """The rules of the question at `position` of `plan.asked`."""
    return plan.rules.get(plan.asked[position], NO_RULES) if plan.rules else NO_RULES


def not_found(rules: QuestionRules, given: Iterable[Ranking]) -> list[str]:
    """The pinned documents that no branch has found; a store has to tell whether it has them."""
    if not rules.pinned:
        return []
    found = {hit.document_id for ranking in given for hit in ranking.hits}
    return [document for document in rules.pinned if document not in found]


Placed = tuple[Candidate, float, float]
"""A candidate, its score after boosts, and the factor that bounds it."""


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
    looked: Looked,
    excluded: frozenset[str],
) -> Ruled:
    """The candidates with the pinned documents first.

    A pinned document that is no candidate has the score 0.  One that neither a branch nor `looked` knows, or that the
    request excludes, is left out: it does not exist, or the filters do not allow it.  `answered` are by branch.
    """
    if (rules := rules_at(plan, position)) is NO_RULES:
        return Ruled(ranked)
    known = {id_: (hit, looked.store) for id_, hit in looked.hits.items()}
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
            pinned[document] = Candidate(0.0, known[document][0]._replace(score=0.0), []), 0.0, 1.0
    taken = {best[document] for document in pinned if document in best}
    rest = (one for place, one in enumerate(ranked) if place not in taken)
    blocked = [document for document in rules.blocked if document in known]
    stores = {document: known[document][1] for document in pinned if document not in best}
    return Ruled([*pinned.values(), *rest], rules, list(pinned), blocked, stores)


def apart(hits: Sequence[FusedHit]) -> tuple[list[FusedHit], list[FusedHit]]:
    """The pinned hits, and the others."""
    return [hit for hit in hits if hit.pinned], [hit for hit in hits if not hit.pinned]
