"""Where a document of a recorded request went: its place in each branch, and what put it where it is in the answer."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from evaluation.recorded.request import RecordedRequest
from fusion.fused_hits import FusedHit
from fusion.page import rules_at
from models.plan import Plan
from models.tables.audit import HitRow


@dataclass(frozen=True, slots=True)
class BranchPlace:
    branch: str
    rank: int | None
    """Among the documents of the branch, from 1."""
    score: float | None
    why: str
    """Why there is no rank; empty if there is."""


@dataclass(frozen=True, slots=True)
class Whereabouts:
    document_id: str
    branches: Sequence[BranchPlace]
    fused_rank: int | None
    """From 1; None for a document that was folded into another, was removed, or that no branch found."""
    answer_rank: int | None
    """In the recorded answer, from 1."""
    steps: Sequence[str]
    """What happened to the document, in the order of the stages."""


def whereabouts(
    recorded: RecordedRequest,
    plan: Plan,
    position: int,
    document_id: str,
    fused: Sequence[FusedHit],
    *,
    late: Collection[str] = (),
) -> Whereabouts:
    """`fused` are all fused hits of the question at `position`, under `plan` and without the branches `late`."""
    places = list(_places(recorded, plan, position, document_id, late))
    fused_rank = next(
        (rank for rank, hit in enumerate(fused, start=1) if hit.document_id == document_id), None
    )
    answered = recorded.row.questions[plan.searched[position]].hits
    row = next((hit for hit in answered if hit.document_id == document_id), None)
    steps = list(_steps(recorded, plan, position, document_id, fused, fused_rank, places, row))
    return Whereabouts(document_id, places, fused_rank, None if row is None else row.rank, steps)


def _places(
    recorded: RecordedRequest, plan: Plan, position: int, document_id: str, late: Collection[str]
) -> Iterator[BranchPlace]:
    for branch in plan.branches:
        documents = recorded.documents(branch.name, position)
        if documents is None:
            result = recorded.results.get(branch.name)
            why = (result.detail or str(result.reason or "")) if result is not None else "it has not reported"
            yield BranchPlace(branch.name, None, None, why or "no list is recorded")
            continue
        if branch.name in late:
            yield BranchPlace(branch.name, None, None, "it reported after the deadline")
            continue
        if document_id in documents:
            rank = list(documents).index(document_id) + 1
            is_beyond = rank > branch.depth - plan.spare
            why = f"beyond the depth of {branch.depth - plan.spare}" if is_beyond else ""
            yield BranchPlace(branch.name, rank, documents[document_id], why)
        else:
            yield BranchPlace(branch.name, None, None, f"not among its {len(documents)} documents")


def _steps(
    recorded: RecordedRequest,
    plan: Plan,
    position: int,
    document_id: str,
    fused: Sequence[FusedHit],
    fused_rank: int | None,
    places: Sequence[BranchPlace],
    row: HitRow | None,
) -> Iterator[str]:
    request = recorded.request
    if not any(place.rank for place in places):
        yield "No branch found it."
        return
    if document_id in request.excluded_ids:
        yield "The request excludes it (exclude_ids)."
        return
    if rule := rules_at(plan, position).blocked.get(document_id):
        yield f"The rule {rule!r} of the namespace blocks it."
        return
    for rank, hit in enumerate(fused, start=1):
        if copy := next((copy for copy in hit.folded if copy.document_id == document_id), None):
            yield f"It is folded into {hit.document_id}, which has rank {rank} ({copy.why})."
            return
    if fused_rank is None:
        yield (
            "A threshold of the request removed it."
            if request.thresholds
            else "No branch has it within its depth."
        )
        return
    hit = fused[fused_rank - 1]
    yield f"The fusion puts it at rank {fused_rank}."
    if (factor := prod(hit.boosts.values())) != 1:
        yield f"Boosts multiply its score by {factor:.3g} ({', '.join(hit.boosts)})."
    if hit.pinned:
        yield f"The rule {hit.pinned!r} pins it."
    if row is not None:
        reranked = (row.explanation.get("rerank") or {}).get("stage") == "reranked"
        if reranked:
            yield f"The reranker puts it at rank {row.rank}."
        yield f"The answer has it at rank {row.rank}."
        return
    last = request.offset + request.top_k
    if fused_rank > last:
        yield f"The page ends at rank {last} (offset + top_k)."
    elif plan.rerank is not None:
        yield f"The reranker moved it behind rank {last}, where the page ends."
    else:
        yield "A later stage of the page left it out (group_by, autocut or diversity)."
