"""The scores of passages that a branch did not find itself, from its store: for configurations with `complete_scores`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from chorale_client.wire_names import Stage

from fusion.branch_results import BranchAnswers, ranking_of
from fusion.interleaving import missing_scores
from fusion.rankings import Scores
from models.branch_result import Degradation, StageNote
from models.declarations.fusion_method import Method
from models.documents import Vector
from models.errors import StageFailure
from models.hits import QueryInputs
from models.plan import BranchPlan
from search.deadline import Deadline
from search.protocol import ScoresText
from search.ranking_end import COSINE_DECIMALS
from tasks.request.composing.ending import failure_of, stage_note
from tasks.wiring.resources import Resources


@dataclass(frozen=True, slots=True)
class ScoreBackfill:
    """Scores for each question asked, in order; what is missing gets the branch's lowest score.  Empty: none are to be completed."""

    scores: Sequence[Scores] = ()
    note: StageNote | None = None
    why: Degradation | None = None
    """Why the store did not give scores that it should have."""


@dataclass(slots=True)
class _Gap:
    """What one branch has to score for one question."""

    position: int
    branch: BranchPlan
    inputs: QueryInputs
    passage_ids: list[str]
    scores: dict[str, float] = field(default_factory=dict)


def complete(
    resources: Resources, answers: BranchAnswers, method_of: Callable[[str], Method], deadline: Deadline
) -> ScoreBackfill:
    """One call to each store for the vectors of all questions, and one for the texts of each branch."""
    if not answers.plan.searched or not any(side.complete_scores for side in answers.plan.sides):
        return ScoreBackfill()
    started_s = time.monotonic()
    gaps = list(_gaps(answers, method_of))
    failure: StageFailure | None = None
    for alike in _by_call(gaps):
        try:
            if (remaining_s := deadline.remaining_s) <= 0:
                raise TimeoutError("no time left to score what only other branches found")
            _score(resources, answers.plan.namespace, alike, remaining_s)
        except Exception as error:
            failure = failure or failure_of(error, "no scores", store=alike[0].branch.store)
    by_question: list[dict[str, Mapping[str, float]]] = [{} for _ in answers.plan.searched]
    for gap in gaps:
        by_question[gap.position][gap.branch.name] = gap.scores
    count, scored = sum(len(gap.passage_ids) for gap in gaps), sum(len(gap.scores) for gap in gaps)
    why = None if failure is None else Degradation(Stage.SCORE, failure.reason, str(failure)[:500])
    return ScoreBackfill(
        by_question, stage_note(Stage.SCORE, started_s, count, scored, why, has_part=True), why
    )


def _gaps(answers: BranchAnswers, method_of: Callable[[str], Method]) -> Iterator[_Gap]:
    for position in range(len(answers.plan.searched)):
        missing = missing_scores(answers, position, method_of)
        for branch in answers.plan.branches:
            ranking = ranking_of(answers.branch_results.get(branch.name), position)
            ids = missing.get(branch.name)
            if ids and ranking is not None and ranking.query_inputs is not None:
                yield _Gap(position, branch, ranking.query_inputs, ids)


def _by_call(gaps: Sequence[_Gap]) -> list[list[_Gap]]:
    """Vectors in one store share a call; so do texts of one branch."""
    groups: dict[tuple[str, str], list[_Gap]] = {}
    for gap in gaps:
        own = gap.branch.name if gap.inputs.texts else ""
        groups.setdefault((gap.branch.store, own), []).append(gap)
    return list(groups.values())


def _score(resources: Resources, namespace: str, alike: Sequence[_Gap], timeout_s: float) -> None:
    store = resources.serving(alike[0].branch.store, namespace, timeout_s)
    if not alike[0].inputs.texts:
        ids = list(dict.fromkeys(id_ for gap in alike for id_ in gap.passage_ids))
        vectors = store.vectors(namespace, ids, timeout_s=timeout_s)
        for gap in alike:
            gap.scores.update(_cosines(gap, vectors))
    elif isinstance(store, ScoresText):
        texts = [(gap, text, factor) for gap in alike for text, factor in gap.inputs.texts.items()]
        scored = store.score_text(
            namespace,
            [text for _, text, _ in texts],
            [gap.passage_ids for gap, _, _ in texts],
            timeout_s=timeout_s,
        )
        for (gap, _, factor), scores in zip(texts, scored, strict=True):
            for id_ in scores.keys() & gap.passage_ids:
                gap.scores[id_] = gap.scores.get(id_, 0.0) + factor * float(scores[id_])


def _cosines(gap: _Gap, vectors: Mapping[str, Vector]) -> dict[str, float]:
    if not (known := [id_ for id_ in gap.passage_ids if id_ in vectors]):
        return {}
    questions = np.stack([np.frombuffer(row, "<f4") for row in gap.inputs.vectors])
    products = np.stack([vectors[id_] for id_ in known]) @ questions.T
    best = products.max(axis=1).astype(np.float64).round(COSINE_DECIMALS)
    return dict(zip(known, best.tolist(), strict=True))
