"""Sends every judged question through the real pipeline, for each single branch and each configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from chorale_client.answer import Answer, QuestionAnswer
from chorale_client.limits import MAX_TEXT_CHARS
from chorale_client.request import Request
from chorale_client.request_factory import make_request
from chorale_client.wire_names import Status

from config.declarations import Pipeline
from evaluation.judged.collection import Collection
from evaluation.judged.metrics import measure
from models.batching import in_batches

DEPTH = 100
QUESTIONS_A_REQUEST = 16
"""Enough for a full batch of the embedder, and few enough for the time of one request on two cores."""
TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Run:
    """A way to rank, in the terms of a request."""

    name: str
    configuration: str
    branches: tuple[str, ...]
    weights: Mapping[str, float] | None = None
    is_reranked: bool = False
    fusion: str | None = None
    """The fusion method, instead of the configuration's."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The figures of `chorale eval`, and the faults that make them unreliable."""

    collection: str
    documents: int
    questions: int
    figures: Mapping[str, Mapping[str, float]]
    """Mean values, by run and measure."""
    faults: Mapping[str, int]
    """Questions whose answer was degraded or failed, by run and reason (`rrf: search.hyde timeout`)."""
    best_scores: Mapping[str, float] = field(default_factory=dict)
    """By branch, the median over the questions of its best hit's raw score: `halves` for the method `bounded`."""

    def to_wire(self) -> dict[str, Any]:
        return {
            "collection": self.collection,
            "documents": self.documents,
            "questions": self.questions,
            "runs": [
                {"name": name, **{measure: round(value, 4) for measure, value in figures.items()}}
                for name, figures in self.figures.items()
            ],
            "best_scores": {name: round(score, 4) for name, score in self.best_scores.items()},
        }


def runs_of(pipeline: Pipeline, fusions: Sequence[str] = ()) -> list[Run]:
    """Each branch alone without a reranker, then each configuration that ranks differently (apart from boosts).

    Last comes each of the methods `fusions`, with the branches and weights of the default configuration.
    """
    runs: list[Run] = []
    branches_by_name = {
        name: pipeline.branches_of(chosen) for name, chosen in pipeline.configurations.items()
    }
    for branch in pipeline.branches:
        for name, branches in branches_by_name.items():
            if branch.name in {member.name for member in branches}:
                # With a weight of 0 all scores would be equal.
                runs.append(Run(branch.name, name, (branch.name,), {branch.name: 1.0}))
                break
    seen: list[tuple[Any, ...]] = []
    for name, branches in branches_by_name.items():
        chosen = pipeline.configurations[name]
        weights = frozenset((member.name, member.weight) for member in branches)
        ranking = (weights, chosen.model_dump(exclude={"name", "branches", "weights", "boosts", "timeout_s"}))
        if (len(branches) > 1 or chosen.reranker) and ranking not in seen:
            seen.append(ranking)
            names = tuple(member.name for member in branches)
            runs.append(Run(name, name, names, is_reranked=chosen.reranker is not None))
    default = pipeline.default_configuration
    names = tuple(member.name for member in branches_by_name[default])
    return runs + [Run(f"fusion={fusion}", default, names, fusion=fusion) for fusion in fusions]


def evaluate(
    collection: Collection,
    *,
    runs: Sequence[Run],
    documents: int,
    ask: Callable[[Request], Answer],
    progress: Callable[[str, int], None] = lambda run, questions: None,
) -> Evaluation:
    """Ask `collection.questions` in each run; calls `progress(run, n)` after n questions.

    Boosts, cache and thresholds are off.  Raises ServiceError without `ir-measures`, and the exceptions of `ask`.
    """
    figures: dict[str, dict[str, float]] = {}
    faults: dict[str, int] = {}
    best: dict[str, list[float]] = {}
    # Report a missing package now, not after all questions.
    measure(collection.judgements, {})
    for run in runs:
        rankings: dict[str, list[str]] = {}
        for question_id, question, answer in answers_of(run, collection, ask, progress):
            rankings[question_id] = ranked_documents(question)
            best_branch = question.hits[0].branches.get(run.name) if question.hits else None
            if best_branch is not None and best_branch.score is not None:
                best.setdefault(run.name, []).append(best_branch.score)
            if question.status not in (Status.COMPLETE, Status.SKIPPED):
                why = ", ".join(f"{missing.where} {missing.reason}" for missing in answer.degraded)
                faults[f"{run.name}: {why}"] = faults.get(f"{run.name}: {why}", 0) + 1
        figures[run.name] = measure(collection.judgements, rankings, own=collection.own)
    medians = {name: median(scores) for name, scores in best.items()}
    return Evaluation(collection.name, documents, len(collection.questions), figures, faults, medians)


def answers_of(
    run: Run,
    collection: Collection,
    ask: Callable[[Request], Answer],
    progress: Callable[[str, int], None],
    **options: Any,
) -> Iterator[tuple[str, QuestionAnswer, Answer]]:
    """Yields for each question of the collection: its id, its answer, and the whole answer of its request.

    `options` take the place of those of the run's requests.
    """
    # The questions of a request share the time budget of its reranker.
    for ids in in_batches(collection.questions, 1 if run.is_reranked else QUESTIONS_A_REQUEST):
        request = request_of(run, collection.namespace, [collection.questions[id_] for id_ in ids])
        answer = ask(request.model_copy(update=options))
        for question_id, question in zip(ids, answer.questions, strict=True):
            yield question_id, question, answer
        progress(run.name, len(ids))


def ranked_documents(question: QuestionAnswer) -> list[str]:
    """The documents of an answer, best first; folded documents follow their hit.

    A folded copy is as good an answer as its hit, and may be the one that was judged.
    """
    ranked: list[str] = []
    for hit in question.hits:
        ranked += [hit.document_id, *(copy.document_id for copy in hit.folded)]
    return ranked[:DEPTH]


def request_of(run: Run, namespace: str, texts: Sequence[str]) -> Request:
    """Without boosts, cache and thresholds, and without a reranker unless the run has one."""
    return make_request(
        [text[:MAX_TEXT_CHARS] for text in texts],
        namespace=namespace,
        depth=2 * DEPTH,
        top_k=DEPTH,
        boosts="off",
        cache="bypass",
        timeout_s=TIMEOUT_S,
        configuration=run.configuration,
        fusion=run.fusion,
        branches=run.branches,
        weights=None if run.weights is None else dict(run.weights),
        include=["ids"] if run.weights is None else ["ids", "explanation"],
        rerank=None if run.is_reranked else "off",
    )
