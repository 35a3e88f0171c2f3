"""The parts of the chord: start, search all questions at once, report an envelope.

A part catches everything: a failure is an envelope with a reason, never an exception.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from celery import Celery
from chorale_client.request import Question, Request
from chorale_client.words import TASK_SEARCH, EnvelopeStatus, Reason, Stage, StageStatus
from structlog import get_logger

from fusion.collapse import collapse_ranking
from inference.feedback import feedback_vector, hypothesis_vector
from ledger.protocol import Started
from models.documents import Matrix, Vector
from models.envelope import Envelope, StageNote
from models.errors import StageFailure
from models.hits import Ranking
from models.plan import BranchPlan, Plan
from tasks.backend import Report

if TYPE_CHECKING:
    from search.protocol import Searches
    from tasks.resources import Resources

log = get_logger("chorale.search")


@dataclass(slots=True)
class Part:
    """What one branch works on, and the notes it takes."""

    resources: Resources
    store: Searches
    branch: BranchPlan
    request: Request
    questions: Sequence[Question]
    ends_at_s: float
    """When its time is over, by the monotonic clock."""
    begun_ms: float
    """When it began, counted from the acceptance of the request."""
    notes: list[StageNote] = field(default_factory=list)
    clock: Callable[[], float] = time.monotonic

    @property
    def left_s(self) -> float:
        return max(0.001, self.ends_at_s - self.clock())

    @property
    def texts(self) -> list[str]:
        return [question.text for question in self.questions]

    def timed(self, stage: Stage, started_s: float, detail: str | None = None) -> None:
        ms = (self.clock() - started_s) * 1000
        self.notes.append(StageNote(stage, StageStatus.OK, ms, n_in=len(self.questions), detail=detail))

    def embed(self) -> Matrix:
        started = self.clock()
        vectors = self.resources.questions.embed_questions(self.texts)
        self.timed(Stage.EMBED, started)
        return vectors

    def search_text(self, depth: int) -> list[Ranking]:
        started = self.clock()
        rankings = self.store.search_text(
            self.request.namespace,
            self.texts,
            depth=depth,
            filters=self.request.filters,
            exclude_ids=self.request.exclude_ids,
            timeout_s=self.left_s,
        )
        self.timed(Stage.SEARCH, started)
        return rankings

    def search_vectors(self, vectors: Matrix) -> list[Ranking]:
        started = self.clock()
        rankings = self.store.search_vectors(
            self.request.namespace,
            vectors,
            depth=self.branch.depth,
            filters=self.request.filters,
            exclude_ids=self.request.exclude_ids,
            timeout_s=self.left_s,
        )
        self.timed(Stage.SEARCH, started)
        return rankings


def search_bm25(part: Part) -> list[Ranking]:
    return part.search_text(part.branch.depth)


def search_vector(part: Part) -> list[Ranking]:
    return part.search_vectors(part.embed())


def search_hyde(part: Part) -> list[Ranking]:
    """Search with the vector of what an answer could look like (HyDE, Gao et al. 2022).

    Documents that the caller imagined are averaged with the question; without them the best BM25 passages stand in
    for a hypothesis (`feedback`), which needs no language model and is named in the notes.
    """
    vectors = part.embed()
    started = part.clock()
    imagined = [index for index, question in enumerate(part.questions) if question.hypothetical_documents]
    for index in imagined:
        documents = part.resources.embedder.embed_passages(part.questions[index].hypothetical_documents)
        vectors[index] = hypothesis_vector(vectors[index], documents)
    if len(imagined) < len(part.questions):
        _move_by_feedback(part, vectors, [i for i in range(len(part.questions)) if i not in set(imagined)])
    detail = (
        "given" if len(imagined) == len(part.questions) else "given, feedback" if imagined else "feedback"
    )
    part.timed(Stage.HYPOTHESIS, started, detail)
    return part.search_vectors(vectors)


def _move_by_feedback(part: Part, vectors: Matrix, indices: Sequence[int]) -> None:
    settings = part.resources.settings
    count = settings.feedback_passages
    rankings = part.store.search_text(
        part.request.namespace,
        [part.questions[index].text for index in indices],
        depth=count,
        filters=part.request.filters,
        exclude_ids=part.request.exclude_ids,
        timeout_s=part.left_s,
    )
    best = [ranking.hits[:count] for ranking in rankings]
    known = part.store.vectors(part.request.namespace, [hit.passage_id for hits in best for hit in hits])
    for index, hits in zip(indices, best, strict=True):
        found: list[tuple[Vector, float]] = [
            (known[hit.passage_id], hit.score) for hit in hits if hit.passage_id in known
        ]
        if found:
            passages = np.stack([vector for vector, _ in found])
            vectors[index] = feedback_vector(
                vectors[index],
                passages,
                [score for _, score in found],
                alpha=settings.feedback_alpha,
                count=count,
            )


KINDS: Mapping[str, Callable[[Part], list[Ranking]]] = {
    "bm25": search_bm25,
    "vector": search_vector,
    "hyde": search_hyde,
}
"""What a branch of each kind does; its task is `chorale.search.<kind>`."""


def answer_part(resources: Resources, name: str, started: Started) -> Envelope:
    """Run one branch within its time; whatever happens, an envelope."""
    begun_s = time.monotonic()
    if started.left_ms <= 0:
        return Envelope.failed(name, Reason.LATE, f"taken {-started.left_ms} ms after its limit")
    part: Part | None = None
    try:
        request = Request.model_validate_json(started.request)
        plan = Plan.model_validate_json(started.plan)
        branch = next(branch for branch in plan.branches if branch.name == name)
        part = Part(
            resources,
            resources.store(branch.store),
            branch,
            request,
            [request.questions[index] for index in plan.asked],
            ends_at_s=begun_s + started.left_ms / 1000,
            begun_ms=started.since_accepted_ms,
        )
        # Before searching: what is indexed meanwhile may or may not be seen, and the answer is then not cached.
        generation = part.store.generation(request.namespace)
        rankings = KINDS[branch.kind](part)
        if request.fuse_by == "document":
            rankings = [collapse_ranking(ranking, branch.depth) for ranking in rankings]
        found = any(ranking.hits for ranking in rankings)
        return Envelope(
            branch=name,
            status=EnvelopeStatus.OK if found else EnvelopeStatus.EMPTY,
            rankings=tuple(rankings),
            ms=(time.monotonic() - begun_s) * 1000,
            stages=(*part.notes, _whole(part, name, begun_s, rankings)),
            generation=generation,
        )
    except StageFailure as failure:
        reason, detail = failure.reason, failure.detail
    except Exception as error:  # a MemoryError too: Celery would end the worker over it
        log.exception("branch failed", branch=name)
        reason, detail = Reason.ERROR, f"{type(error).__name__}: {error}"
    stages = (*part.notes, _whole(part, name, begun_s, (), StageStatus.FAILED)) if part else ()
    return Envelope.failed(name, reason, detail, ms=(time.monotonic() - begun_s) * 1000, stages=stages)


def _whole(
    part: Part, name: str, begun_s: float, rankings: Sequence[Ranking], status: StageStatus = StageStatus.OK
) -> StageNote:
    return StageNote(
        f"{Stage.SEARCH}.{name}",
        status,
        (time.monotonic() - begun_s) * 1000,
        n_in=len(part.questions),
        n_out=sum(len(ranking.hits) for ranking in rankings),
        start_ms=part.begun_ms,
    )


def register(app: Celery) -> None:
    """One task a kind; names are written out in `chorale_client.words`."""
    for kind in KINDS:
        app.task(search_task, name=TASK_SEARCH.format(kind=kind), bind=True, ignore_result=True)


def search_task(task: object, request_id: str, branch: str) -> Report | None:
    """Start, search; the result backend reports the envelope to the ledger."""
    resources: Resources = task.app.resources  # type: ignore[attr-defined]
    started = resources.ledger.start(request_id, branch)
    return Report(answer_part(resources, branch, started)) if started else None
