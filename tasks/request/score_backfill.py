"""The scores of passages that a branch did not find itself, from its store: for configurations with `complete_scores`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from chorale_client.wire_names import Reason, Stage, StageStatus
from structlog import get_logger

from fusion.branch_results import BranchAnswers, ranking_of
from fusion.fuse import unscored_passages
from fusion.rankings import Scores
from models.branch_result import Degradation, StageNote
from models.documents import Vector
from models.errors import StageFailure
from models.fusion_method import Method
from models.hits import QueryInputs
from models.plan import BranchPlan
from search.protocol import ScoresText
from wiring.resources import Resources

log = get_logger("chorale.scores")

COSINE_DECIMALS = 6


@dataclass(frozen=True, slots=True)
class Completed:
    """Scores for each question asked, in order; what is missing gets the branch's lowest score."""

    scores: Sequence[Scores] = ()
    note: StageNote | None = None
    why: Degradation | None = None
    """Why the store did not give scores that it should have."""


@dataclass(slots=True)
class _Wanted:
    """What one branch has to score for one question."""

    position: int
    branch: BranchPlan
    asked: QueryInputs
    passage_ids: list[str]
    scores: dict[str, float] = field(default_factory=dict)


def complete(resources: Resources, found: BranchAnswers, method: Method, *, limit_s: float) -> Completed:
    """One call to each store for the vectors of all questions, and one for the texts of each branch."""
    started_s = time.monotonic()
    wanted = list(_wanted(found, method))
    failure: StageFailure | TimeoutError | None = None
    for alike in _by_call(wanted):
        left_s = started_s + limit_s - time.monotonic()
        try:
            if left_s <= 0:
                raise TimeoutError("no time left to score what only other branches found")
            _score(resources, found.plan.namespace, alike, left_s)
        except (StageFailure, TimeoutError) as error:
            failure = failure or error
        except Exception as error:  # a store from outside may raise anything
            log.exception("no scores", store=alike[0].branch.store)
            failure = failure or StageFailure(f"{type(error).__name__}: {error}")
    by_question: list[dict[str, Mapping[str, float]]] = [{} for _ in found.plan.asked]
    for one in wanted:
        by_question[one.position][one.branch.name] = one.scores
    count, scored = sum(len(one.passage_ids) for one in wanted), sum(len(one.scores) for one in wanted)
    ms = (time.monotonic() - started_s) * 1000
    if failure is None:
        return Completed(by_question, StageNote(Stage.SCORE, StageStatus.OK, ms, count, scored))
    reason = failure.reason if isinstance(failure, StageFailure) else Reason.BUDGET
    note = StageNote(Stage.SCORE, StageStatus.PARTIAL, ms, count, scored, detail=str(reason))
    return Completed(by_question, note, Degradation(Stage.SCORE, reason, str(failure)[:500]))


def _wanted(found: BranchAnswers, method: Method) -> Iterator[_Wanted]:
    for position in range(len(found.plan.asked)):
        missing = unscored_passages(found.plan, found.envelopes, position, found.request, method)
        for branch in found.plan.branches:
            ranking = ranking_of(found.envelopes.get(branch.name), position)
            ids = missing.get(branch.name)
            if ids and ranking is not None and ranking.asked is not None:
                yield _Wanted(position, branch, ranking.asked, ids)


def _by_call(wanted: Sequence[_Wanted]) -> list[list[_Wanted]]:
    """Vectors in one store share a call; so do texts of one branch."""
    groups: dict[tuple[str, str], list[_Wanted]] = {}
    for one in wanted:
        own = one.branch.name if one.asked.texts else ""
        groups.setdefault((one.branch.store, own), []).append(one)
    return list(groups.values())


def _score(resources: Resources, namespace: str, alike: Sequence[_Wanted], left_s: float) -> None:
    store = resources.store(alike[0].branch.store)
    if not alike[0].asked.texts:
        ids = list(dict.fromkeys(id_ for one in alike for id_ in one.passage_ids))
        vectors = store.vectors(namespace, ids, timeout_s=left_s)
        for one in alike:
            one.scores.update(_cosines(one, vectors))
    elif isinstance(store, ScoresText):
        texts = [(one, text, factor) for one in alike for text, factor in one.asked.texts.items()]
        found = store.score_text(
            namespace,
            [text for _, text, _ in texts],
            [one.passage_ids for one, _, _ in texts],
            timeout_s=left_s,
        )
        for (one, _, factor), scores in zip(texts, found, strict=True):
            for id_ in scores.keys() & one.passage_ids:
                one.scores[id_] = one.scores.get(id_, 0.0) + factor * float(scores[id_])


def _cosines(one: _Wanted, vectors: Mapping[str, Vector]) -> dict[str, float]:
    if not (known := [id_ for id_ in one.passage_ids if id_ in vectors]):
        return {}
    questions = np.stack([np.frombuffer(row, "<f4") for row in one.asked.vectors])
    products = np.stack([vectors[id_] for id_ in known]) @ questions.T
    best = products.max(axis=1).astype(np.float64).round(COSINE_DECIMALS)
    return dict(zip(known, best.tolist(), strict=True))
