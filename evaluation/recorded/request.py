"""A request as its audit rows have it, and the fusion of the lists that its branches reported.

No store and no model takes part.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from chorale_client.request import Request
from chorale_client.wire_names import BranchStatus
from pydantic import ValidationError

from config.declarations import Pipeline
from fusion.branch_results import BranchAnswers
from fusion.conditions import least_relaxed
from fusion.fused_hits import FusedHit, FusedQuestion
from fusion.interleaving import fused_question, missing_scores
from fusion.page import page_of
from fusion.rankings import Scores
from models.branch_result import BranchResult
from models.errors import ServiceError
from models.plan import Plan
from models.tables.audit import RequestRow

_ALL = 1_000
"""As many hits as a request may show."""


@dataclass(frozen=True)
class RecordedRequest:
    row: RequestRow
    request: Request
    plan: Plan
    pipeline: Pipeline
    """Whose methods fuse."""

    @classmethod
    def read(cls, row: RequestRow, pipeline: Pipeline) -> RecordedRequest:
        """`row` comes from `records.audit.queries.show`.  Raises ServiceError for a request that was never fused, and for one that
        another version wrote."""
        if row.plan is None:
            raise ServiceError(
                f"the request {row.request_id} ended without a plan ({row.ended_by}): nothing was fused"
            )
        texts = [{"text": question.text or ""} for question in row.questions]
        try:
            request = Request.model_validate({**row.options, "questions": texts}, strict=False)
            return cls(row, request, Plan.model_validate(row.plan), pipeline)
        except ValidationError as error:
            raise ServiceError(f"the request {row.request_id} is of another version: {error}") from error

    @cached_property
    def results(self) -> Mapping[str, BranchResult]:
        """What each branch reported, by its name."""
        return least_relaxed(
            {
                branch.branch: BranchResult(
                    branch.branch, branch.status, branch.reason, branch.detail, branch.rankings
                )
                for branch in self.row.branches
            }
        )

    def documents(self, branch: str, position: int) -> Mapping[str, float | None] | None:
        """What the branch reported for the question at `position` of `plan.searched`: the documents in their order, each with the
        score of its first passage.  None if no list is recorded."""
        result = self.results.get(branch)
        if result is None or position >= len(result.rankings):
            return None
        scores: dict[str, float | None] = {}
        for hit in result.rankings[position].hits:
            scores.setdefault(hit.document_id, hit.score)
        return scores

    @cached_property
    def completed(self) -> Sequence[Scores] | None:
        """The scores that completed the rankings of each question asked; None if the rows lack them."""
        if not any(side.complete_scores for side in self.plan.sides):
            return [{} for _ in self.plan.searched]
        by_branch = {
            branch.branch: branch.completed
            for branch in self.row.branches
            if branch.status == BranchStatus.OK
        }
        if None in by_branch.values():
            return None
        return [
            {
                name: scores[position]
                for name, scores in by_branch.items()
                if scores and position < len(scores)
            }
            for position in range(len(self.plan.searched))
        ]

    def fused(
        self, plan: Plan, position: int, *, without: Collection[str] = (), count: int = _ALL
    ) -> Sequence[FusedHit]:
        """The first `count` fused hits of the question at `position` of `plan.searched`, without reranking, groups and diversity.

        The results of the branches `without` are left out, as if they had not come in time.
        """
        without_late_stages = {"group_by": None, "diversity": None, "autocut": None}
        whole = self.request.model_copy(update={"offset": 0, "top_k": count, **without_late_stages})
        answers = BranchAnswers(whole, plan.model_copy(update={"rerank": None}), self._without(without))
        scores = self.completed[position] if self.completed else {}
        return fused_question(answers, position, self.pipeline.kinds.method, scores=scores).hits

    def page(self, hits: Sequence[FusedHit], plan: Plan) -> Sequence[FusedHit]:
        """The hits of the requested page."""
        return page_of(FusedQuestion(tuple(hits)), self.request, plan).hits

    def unscored(self, plan: Plan, position: int) -> set[tuple[str, str]]:
        """Branch and passage of each score that the plan asks the stores for."""
        answers = BranchAnswers(self.request, plan, self.results)
        missing = missing_scores(answers, position, self.pipeline.kinds.method)
        return {(branch, id_) for branch, ids in missing.items() for id_ in ids}

    def lacks_scores(self, plan: Plan, position: int) -> bool:
        """Whether `plan` needs scores of the stores that the rows do not hold."""
        if self.completed is None or plan is self.plan:
            return self.completed is None
        return not self.unscored(plan, position) <= self.unscored(self.plan, position)

    def _without(self, branches: Collection[str]) -> Mapping[str, BranchResult]:
        return {name: result for name, result in self.results.items() if name not in branches}
