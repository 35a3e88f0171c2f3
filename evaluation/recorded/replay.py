"""Fuses an audited request again, from its audit rows alone: as it was, or under another configuration.

No store and no model takes part.  What the rows do not hold is a `Gap` of the replay, and never a guess that is not named.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

from chorale_client.request import Request
from chorale_client.wire_names import BranchStatus, Status

from config.declarations import Pipeline
from evaluation.judged.movements import Movement, movements
from evaluation.recorded.request import RecordedRequest
from fusion.fused_hits import FusedHit
from models.plan import Plan
from models.tables.audit import HitRow, QuestionRow, RequestRow
from tasks.request.planning.plans import resolve

_WITHOUT_HITS = (Status.FAILED, Status.SKIPPED, Status.CANCELLED, Status.REFUSED)


@dataclass(frozen=True, slots=True)
class Gap:
    """Something that the audit rows do not hold, so that the replay lacks it."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class ReplayedQuestion:
    position: int
    text: str | None
    """None if the trail keeps no texts."""
    is_equal: bool | None
    """Whether the fusion as it was gives the recorded answer; None: there is nothing to compare."""
    hits: Sequence[FusedHit]
    """The page of the replay."""
    moved: Sequence[Movement]
    """The documents of both pages: as the request was fused, and as it is fused now."""


@dataclass(frozen=True, slots=True)
class Replay:
    request_id: str
    was: str
    """Configuration and method of the request."""
    now: str
    """Those of the replay."""
    questions: Sequence[ReplayedQuestion]
    gaps: Sequence[Gap]

    @property
    def is_equal(self) -> bool:
        return all(question.is_equal is not False for question in self.questions)

    def to_wire(self) -> dict[str, Any]:
        return {
            "request_id": self.request_id,
            "was": self.was,
            "now": self.now,
            "is_equal": self.is_equal,
            "questions": [
                {
                    "position": question.position,
                    "text": question.text,
                    "is_equal": question.is_equal,
                    "hits": [{"document_id": hit.document_id, "score": hit.score} for hit in question.hits],
                    "moved": [movement.to_wire() for movement in question.moved if not movement.is_none],
                }
                for question in self.questions
            ],
            "not_held": [{"what": gap.what, "why": gap.why} for gap in self.gaps],
        }


def replay(row: RequestRow, pipeline: Pipeline, *, configuration: str | None = None) -> Replay:
    """Fuse the request again, with the plan that it had; `configuration` plans it anew.

    `row` comes from `records.audit.queries.show`.  Raises ServiceError for a request that was never fused or that another version
    wrote, and NotOffered for an unknown configuration.
    """
    recorded = RecordedRequest.read(row, pipeline)
    request, plan = recorded.request, recorded.plan
    new = planned_under(recorded, configuration)
    questions: list[ReplayedQuestion] = []
    fetched: set[str] = set()
    lacks_scores = False
    for position, index in enumerate(plan.searched):
        before = recorded.fused(plan, position)
        after = before if new is plan else recorded.fused(new, position)
        lacks_scores |= recorded.lacks_scores(new, position)
        page = recorded.page(after, new)
        unit = f"{request.fuse_by}_id"
        ids = [getattr(hit, unit) for hit in (*page, *recorded.page(before, plan))]
        moved = movements(before, after, ids, unit=unit)
        question = row.questions[index]
        fetched |= _fetched(question, plan, {hit.document_id for hit in before})
        is_equal = None if recorded.completed is None else _is_equal(recorded, question, before)
        questions.append(ReplayedQuestion(index, question.text, is_equal, page, moved))
    gaps = [*_gaps(row, request, plan, fetched), *missing_lists(recorded, new)]
    if new.rerank is not None and plan.rerank is None:
        gaps.append(
            Gap("reranking", "a cross-encoder would have to read the passages; the fused order is shown")
        )
    gaps += [_NO_SCORES] if lacks_scores else []
    was, now = (f"{each.configuration} · {each.method}" for each in (plan, new))
    return Replay(row.request_id, was, now, questions, gaps)


def planned_under(recorded: RecordedRequest, configuration: str | None) -> Plan:
    """The plan of the same request and rules under another configuration: with its method, weights and branches.

    None: the plan that the request had.  Raises NotOffered.
    """
    plan, request = recorded.plan, recorded.request
    if configuration is None:
        return plan
    anew = request.model_copy(
        update={
            "configuration": configuration,
            "fusion": None,
            "weights": None,
            "branches": None,
            "now": plan.now,
        }
        | {"require": (), "min_branches": 0, "rerank": "off" if request.rerank == "on" else request.rerank}
    )
    accepted_at = datetime.fromtimestamp(recorded.row.accepted_at_ms / 1000, UTC)
    planned = resolve(
        anew, recorded.pipeline, accepted_at=accepted_at, generation=plan.generation, models=plan.models
    )
    deeper = [branch.model_copy(update={"depth": branch.depth + plan.spare}) for branch in planned.branches]
    same = {name: getattr(plan, name) for name in ("searched", "rules", "rules_version", "spare")}
    return planned.model_copy(update={**same, "branches": tuple(deeper)})


def _is_equal(recorded: RecordedRequest, question: QuestionRow, fused: Sequence[FusedHit]) -> bool | None:
    """Whether the recorded hits are those of the fusion; where a later stage chose them, only their scores count."""
    request, plan = recorded.request, recorded.plan
    is_emptied = question.status == Status.DEGRADED and request.on_missing == "empty"
    has_own_weights = question.text is None and plan.weights_by_type
    if question.cached or question.status in _WITHOUT_HITS or is_emptied or has_own_weights:
        return None
    unit_of = attrgetter(f"{request.fuse_by}_id")
    scores = {unit_of(hit): hit.score for hit in fused}
    fetched = _fetched(question, plan, {hit.document_id for hit in fused})
    known = [hit for hit in question.hits if hit.document_id not in fetched]
    are_scores = all(scores.get(unit_of(hit)) == _fused_score(hit) for hit in known)
    if plan.rerank or request.group_by or request.diversity or fetched:
        return are_scores
    page = recorded.page(fused, plan)
    return are_scores and [unit_of(hit) for hit in page] == [unit_of(hit) for hit in known]


def _fetched(question: QuestionRow, plan: Plan, fused: Container[str]) -> set[str]:
    """The pinned documents of the answer that no branch found."""
    pinned = plan.rules[question.position].pinned if question.position in plan.rules else ()
    hit_ids = (hit.document_id for hit in question.hits)
    return {id_ for id_ in hit_ids if id_ in pinned and id_ not in fused}


def _fused_score(hit: HitRow) -> float | None:
    reranked: Mapping[str, Any] = hit.explanation.get("rerank") or {}
    score: float | None = reranked.get("fused_score", hit.score)
    return score


_NO_SCORES = Gap(
    "completed scores",
    "only the stores know the scores of documents that a branch did not find itself; such a document gets the lowest score of "
    "the branch",
)


def _gaps(row: RequestRow, request: Request, plan: Plan, fetched: Collection[str]) -> Iterator[Gap]:
    """What is missing to get the recorded answer."""
    if any(question.cached for question in row.questions):
        yield Gap(
            "cached questions",
            "their hits came from the cache; the request that was cached has the candidates",
        )
    if plan.rerank is not None:
        yield Gap(
            "reranking",
            "only the hits of the page have their reranker's score; the fused scores before it are compared",
        )
    if plan.weights_by_type and any(question.text is None for question in row.questions):
        yield Gap("types of questions", "the trail keeps no texts, and the weights depend on them")
    if fetched:
        yield Gap(
            f"pinned: {', '.join(sorted(fetched))}", "no branch found it, and the stores were asked for it"
        )
    if request.diversity:
        yield Gap("diversity", "it needs the vectors of the hits; the scores are compared, and not the order")
    if request.group_by is not None:
        yield Gap("groups", "they need the metadata of the hits; the scores are compared, and not the order")


def missing_lists(recorded: RecordedRequest, plan: Plan) -> Iterator[Gap]:
    """The lists of branches that `plan`, of any configuration, needs, and the rows do not hold."""
    for row in recorded.row.branches:
        if row.status == BranchStatus.OK and row.candidates is None:
            yield Gap(
                f"candidates of {row.branch}",
                "they were left out (the outbox was too long, or CHORALE_AUDIT_HITS_SHARE)",
            )
    depths = {branch.name: branch.depth for branch in recorded.plan.branches}
    for branch in plan.branches:
        if branch.name not in depths:
            yield Gap(f"branch {branch.name}", "the request did not search it")
        elif branch.depth > depths[branch.name]:
            yield Gap(
                f"depth of {branch.name}",
                f"{depths[branch.name]} documents are recorded, and {branch.depth} are wanted",
            )
