"""The lists of the branches for judged questions: searched once, and fused again as any configuration would.

A question goes through the planner, the branches, their stores and the completion of scores as a request does, by function
calls instead of messages.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from chorale_client.limits import MAX_TEXT_CHARS
from chorale_client.request import Question, Request
from chorale_client.request_factory import make_request
from chorale_client.wire_names import BranchStatus

from config.declarations import Configuration, Pipeline
from evaluation.judged.run import TIMEOUT_S
from fusion.branch_results import BranchAnswers
from fusion.fuse import fuse_question
from fusion.rankings import Scores, collapse_ranking
from models.branch_result import BranchResult
from models.errors import ServiceError
from models.hits import Ranking
from models.plan import BranchPlan, Plan
from search.deadline import Deadline
from tasks.branches.branch_task import BranchTask
from tasks.request.composing.score_backfill import complete
from tasks.request.planning.plans import resolve
from tasks.wiring.resources import Resources

DEPTHS = (20, 50, 100, 200)
"""For each of these depths there is every score that `complete_scores` needs; the lists have the last depth."""
TOP_K = 10


@dataclass(frozen=True, slots=True)
class JudgedQuestion:
    """A question to search."""

    question_id: str
    text: str
    namespace: str
    filters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BranchLists:
    """What the branches found for one question, a hit a document, and the scores of what they did not find."""

    question_id: str
    text: str
    rankings: Mapping[str, Ranking]
    """By branch."""
    scores: Scores


@dataclass(frozen=True, slots=True)
class Recording:
    """The lists of all questions, and the moment from which recency counts."""

    lists: Sequence[BranchLists]
    now: datetime
    has_all_scores: bool = True
    """Whether the scores are known that `complete_scores` needs under any configuration."""


def record(
    questions: Sequence[JudgedQuestion],
    resources: Resources,
    progress: Callable[[str, int], None] = lambda what, questions: None,
) -> Recording:
    """Search the questions.  Raises ServiceError for a branch or store that fails."""
    now, lists = datetime.now(UTC), []
    for question in questions:
        lists.append(_searched(question, resources, now))
        progress("searching", 1)
    return Recording(lists, now)


def _recorded(pipeline: Pipeline) -> Configuration:
    """Asks every branch with the same weight, and completes the scores."""
    names = tuple(branch.name for branch in pipeline.branches)
    return Configuration(
        name="recorded",
        method="dbsf",
        branches=names,
        weights=dict.fromkeys(names, 1.0),
        complete_scores=True,
    )


def _searched(question: JudgedQuestion, resources: Resources, now: datetime) -> BranchLists:
    chosen = _recorded(resources.pipeline)
    request = make_request(
        [question.text[:MAX_TEXT_CHARS]],
        namespace=question.namespace,
        filters=dict(question.filters),
        configuration=chosen.name,
        depth=DEPTHS[-1],
        timeout_s=TIMEOUT_S,
    )
    pipeline = replace(resources.pipeline, configurations={chosen.name: chosen})
    plan = resolve(request, pipeline, accepted_at=now, generation=None, models={})
    answers = BranchAnswers(request, plan)
    if plan.searched:
        branch_results = {branch.name: _branch_result(resources, answers, branch) for branch in plan.branches}
        answers = replace(answers, branch_results=branch_results)
    scores: dict[str, dict[str, float]] = {branch.name: {} for branch in plan.branches}
    for depth in DEPTHS if plan.searched else ():
        _complete(resources, replace(answers, plan=_cut(plan, depth)), scores)
    rankings = {name: branch_result.rankings[0] for name, branch_result in answers.branch_results.items()}
    return BranchLists(question.question_id, question.text, rankings, scores)


def _branch_result(resources: Resources, answers: BranchAnswers, branch: BranchPlan) -> BranchResult:
    part = BranchTask(
        resources,
        resources.serving(branch.store, answers.request.namespace),
        branch,
        answers.request,
        answers.request.questions,
        ends_at_s=time.monotonic() + TIMEOUT_S,
        begun_ms=0.0,
    )
    rankings = resources.pipeline.kinds.branches[branch.kind].search(part)
    return BranchResult(
        branch.name,
        BranchStatus.OK,
        rankings=tuple(collapse_ranking(ranking, branch.depth) for ranking in rankings),
    )


def _cut(plan: Plan, depth: int) -> Plan:
    branches = (branch.model_copy(update={"depth": min(branch.depth, depth)}) for branch in plan.branches)
    return plan.model_copy(update={"branches": tuple(branches)})


def _complete(resources: Resources, answers: BranchAnswers, scores: Mapping[str, dict[str, float]]) -> None:
    """Adds the scores that this depth needs."""
    method_of = resources.pipeline.kinds.method
    completed = complete(resources, answers, method_of, Deadline(TIMEOUT_S, "the store"))
    if completed.why is not None:
        raise ServiceError(f"{completed.why.where} {completed.why.reason}: {completed.why.detail}")
    for by_branch in completed.scores:
        for name, known in by_branch.items():
            scores[name].update(known)


class OfflineFusion:
    """The rankings of recorded questions under any configuration; no store and no model is asked."""

    def __init__(self, pipeline: Pipeline, recording: Recording) -> None:
        self._pipeline = pipeline
        self._recording = recording

    def rankings(self, configuration: Configuration) -> dict[str, list[str]]:
        """By question id, the ten best documents, each followed by its copies, at the depth of requests.

        The reranker of the configuration does not take part.
        """
        pipeline = replace(self._pipeline, configurations={configuration.name: configuration})
        chosen = {"configuration": configuration.name, "rerank": "off"}
        request = _request("?").model_copy(update=chosen)
        plan = resolve(request, pipeline, accepted_at=self._recording.now, generation=None, models={})
        method = pipeline.kinds.method(plan.method)
        rankings: dict[str, list[str]] = {}
        for lists in self._recording.lists:
            branch_results = {
                name: BranchResult(name, BranchStatus.OK, rankings=(ranking,))
                for name, ranking in lists.rankings.items()
            }
            answers = BranchAnswers(_request(lists.text), plan, branch_results)
            fused = fuse_question(answers, 0, method, scores=lists.scores)
            copies = ((hit.document_id, *(copy.document_id for copy in hit.folded)) for hit in fused.hits)
            rankings[lists.question_id] = [id_ for ids in copies for id_ in ids]
        return rankings


def _request(text: str) -> Request:
    return Request(questions=(Question(text=text[:MAX_TEXT_CHARS]),), top_k=TOP_K)
