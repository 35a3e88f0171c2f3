"""What another weight, k, depth or deadline would have answered: the recorded lists of a request, fused with changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from chorale_client.errors import safe_repr

from config.declarations import Configuration, Pipeline
from evaluation.recorded.request import RecordedRequest
from fusion.fused_hits import FusedHit
from models.errors import ServiceError
from models.plan import Plan

_BEYOND = 1.001
"""How far beyond the tie the weight of a `Swap` is."""
_MOST_WEIGHT = 1_000.0


@dataclass(frozen=True, slots=True)
class FusionChanges:
    """None and absent branches: as the request was."""

    weights: Mapping[str, float] = field(default_factory=dict)
    k: float | None = None
    depth: int | None = None
    """Hits of each branch; more than were recorded are not there."""
    deadline_ms: float | None = None
    """Branches that reported later are left out."""

    def applied(self, plan: Plan) -> Plan:
        """Raises ServiceError for a branch that the plan does not have, and if every weight is 0."""
        branches = tuple(
            branch.model_copy(
                update={
                    "weight": self.weights.get(branch.name, branch.weight),
                    "depth": branch.depth
                    if self.depth is None
                    else min(branch.depth, self.depth + plan.spare),
                }
            )
            for branch in plan.branches
        )
        self._check({branch.name: branch.weight for branch in plan.branches})
        # Weights that somebody chose hold for every type of question.
        by_type = {} if self.weights else plan.weights_by_type
        k = plan.k if self.k is None else self.k
        changed = {"branches": branches, "weights_by_type": by_type, "k": k}
        return plan.model_copy(update={**changed, "rival": None})

    def configuration(self, pipeline: Pipeline, base: str, name: str) -> Configuration:
        """The configuration `base` with these weights and this `k`, under a new name.  Raises as `applied`."""
        configuration = pipeline.configurations[base]
        weights = {branch.name: branch.weight for branch in pipeline.branches_of(configuration)}
        self._check(weights)
        changed: dict[str, Any] = {"name": name, "k": configuration.k if self.k is None else self.k}
        if self.weights:
            changed |= {"weights": {**weights, **self.weights}, "weights_by_type": None}
        return configuration.model_copy(update=changed)

    def _check(self, weights: Mapping[str, float]) -> None:
        """`weights` are those to change."""
        for name in self.weights:
            if name not in weights:
                raise ServiceError(f"weights: no branch {safe_repr(name)}; there are: {', '.join(weights)}")
        if not any({**weights, **self.weights}.values()):
            raise ServiceError("weights: every weight is 0; at least one must be above 0")

    def late(self, recorded: RecordedRequest) -> set[str]:
        """The branches that had not reported by the changed deadline."""
        if self.deadline_ms is None:
            return set()
        reported = reported_ms(recorded)
        return {name for name in recorded.results if reported.get(name, 0.0) > self.deadline_ms}


@dataclass(frozen=True, slots=True)
class Swap:
    """The smallest change of one weight that exchanges the first two hits."""

    branch: str
    before: float
    after: float


def reported_ms(recorded: RecordedRequest) -> dict[str, float]:
    """By branch, the milliseconds from the acceptance of the request to the branch's report."""
    prefix = "search."
    return {
        stage["stage"].removeprefix(prefix): stage["start_ms"] + stage.get("ms", 0.0)
        for stage in recorded.row.stages
        if stage["stage"].startswith(prefix) and stage.get("start_ms") is not None
    }


def fused_with(
    recorded: RecordedRequest, plan: Plan, changes: FusionChanges, position: int
) -> Sequence[FusedHit]:
    """All hits of the question at `position` of `plan.searched`, best first, under `plan` with these changes.  Raises the errors of
    `FusionChanges.applied`."""
    return recorded.fused(changes.applied(plan), position, without=changes.late(recorded))


def smallest_swap(
    recorded: RecordedRequest, plan: Plan, changes: FusionChanges, position: int, hits: Sequence[FusedHit]
) -> Swap | None:
    """The change of one weight that puts the second of `hits` first, and is the smallest share of that weight.

    None if no single weight does it.  Each change is tried by a fusion, since bounded boosts and groups make a score depend
    on weights in other ways.
    """
    if len(hits) < 2 or hits[0].pinned:
        return None
    swaps = []
    for branch in changes.applied(plan).branches:
        gain = _per_weight(hits[1], branch.name) - _per_weight(hits[0], branch.name)
        weight = _weight_in(hits, branch.name, branch.weight)
        if not gain or not weight:
            continue
        # Scores are sums of weight x value.  `reliability` may lower the weight that a ranking has: both change by one factor.
        after = branch.weight * (weight + (hits[0].score - hits[1].score) / gain * _BEYOND) / weight
        if 0 < after <= _MOST_WEIGHT:
            swaps.append(Swap(branch.name, branch.weight, after))
    for swap in sorted(swaps, key=lambda swap: abs(swap.after - swap.before) / swap.before):
        changed = replace(changes, weights={**changes.weights, swap.branch: swap.after})
        first = fused_with(recorded, plan, changed, position)[:1]
        if first and first[0].document_id == hits[1].document_id:
            return swap
    return None


def _per_weight(hit: FusedHit, branch: str) -> float:
    part = hit.branches.get(branch)
    return part.normalised * prod(hit.boosts.values()) if part else 0.0


def _weight_in(hits: Sequence[FusedHit], branch: str, planned: float) -> float:
    return next((hit.branches[branch].weight for hit in hits[:2] if branch in hit.branches), planned)
