"""The lists of the branches for judged questions: recorded once, and fused again as any configuration would.

A question goes through the planner, the branches, their stores and the completion of scores as a request does, by function
calls instead of messages.  A recording is a file of JSON lines: a head that says what the lists depend on, then a question a
line.  Whoever is interrupted goes on where the file ends; a recording of another index or of other branches is made anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from chorale_client.limits import MAX_TEXT_CHARS
from chorale_client.request import Question, Request
from chorale_client.request_factory import make_request
from chorale_client.wire_names import EnvelopeStatus
from pydantic_core import from_json, to_json

from branches.branch_task import BranchTask
from config.declarations import Configuration, Pipeline
from evaluation.run import TIMEOUT_S
from fusion.branch_results import BranchAnswers
from fusion.fuse import fuse_question
from fusion.rankings import Scores, collapse_ranking
from models.branch_result import BranchResult
from models.errors import ServiceError
from models.hits import Ranking
from models.plan import BranchPlan, Plan
from tasks.request.planning import resolve
from tasks.request.score_backfill import complete
from wiring.resources import Resources

DEPTHS = (20, 50, 100, 200)
"""For each of these depths the recording has every score that `complete_scores` needs; the lists have the last depth."""


@dataclass(frozen=True, slots=True)
class JudgedQuestion:
    """A question to record."""

    question_id: str
    text: str
    namespace: str
    filters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """`BranchLists.where`."""
        return to_json([self.namespace, self.filters]).decode()


@dataclass(frozen=True, slots=True)
class BranchLists:
    """What the branches found for one question, a hit a document, and the scores of what they did not find."""

    question_id: str
    text: str
    rankings: Mapping[str, Ranking]
    """By branch."""
    scores: Scores
    where: str = ""
    """Namespace and filters as JSON."""

    def to_wire(self) -> bytes:
        rankings = {name: ranking.to_wire() for name, ranking in self.rankings.items()}
        return to_json([self.question_id, self.text, rankings, self.scores, self.where])

    @classmethod
    def from_wire(cls, raw: bytes) -> BranchLists:
        """Raises ValueError, KeyError or TypeError."""
        question_id, text, rankings, scores, where = from_json(raw)
        read = {name: Ranking.from_wire(ranking) for name, ranking in rankings.items()}
        return cls(question_id, text, read, scores, where)


@dataclass(frozen=True, slots=True)
class Recording:
    """The lists of all questions, and the moment from which recency counts."""

    lists: Sequence[BranchLists]
    now: str
    reused: int = 0
    """Number of questions that were recorded before."""


def record(
    questions: Sequence[JudgedQuestion],
    resources: Resources,
    file: Path,
    progress: Callable[[str, int], None] = lambda what, questions: None,
) -> Recording:
    """The lists of `questions` in their order; those that `file` does not have yet are searched and appended.

    Raises ServiceError for a branch or store that fails; what was recorded before stays.
    """
    identity = _identity(resources, sorted({question.namespace for question in questions}))
    now, known = _read(file, identity)
    if now is None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(to_json({"v": 1, "identity": identity, "now": now}) + b"\n")
    missing = [
        question
        for question in questions
        if (question.question_id, question.text, question.where) not in known
    ]
    progress("recording", len(questions) - len(missing))
    with file.open("ab") as stream:
        for question in missing:
            known[question.question_id, question.text, question.where] = lists = _searched(
                question, resources, now
            )
            stream.write(lists.to_wire() + b"\n")
            stream.flush()
            progress("recording", 1)
    lists_in_order = [known[question.question_id, question.text, question.where] for question in questions]
    return Recording(lists_in_order, now, len(questions) - len(missing))


def _identity(resources: Resources, namespaces: Sequence[str]) -> str:
    """A hash of everything that the lists depend on: stores, branches, models, and the state of each index."""
    pipeline = resources.pipeline
    stores = {branch.store for branch in pipeline.branches}
    states = [
        (name, namespace, resources.store(name).generation(namespace))
        for name in sorted(stores)
        for namespace in namespaces
    ]
    branches = [branch.model_copy(update={"weight": 1.0}) for branch in pipeline.branches]
    dependencies = (
        DEPTHS,
        pipeline.stores,
        branches,
        _recorded(pipeline).branches,
        resources.fingerprints,
        states,
    )
    return sha256(repr(dependencies).encode()).hexdigest()[:16]


def _read(file: Path, identity: str) -> tuple[str | None, dict[tuple[str, str, str], BranchLists]]:
    """The moment and the questions of a recording; None if it has to be made anew.

    A line that an interrupted run left unfinished is cut off.
    """
    with suppress(OSError, ValueError, KeyError, TypeError), file.open("r+b") as stream:
        head = from_json(stream.readline())
        if head["identity"] != identity:
            return None, {}
        known = {}
        whole = stream.tell()
        for raw in iter(stream.readline, b""):
            try:
                lists = BranchLists.from_wire(raw)
            except (ValueError, KeyError, TypeError):
                break
            known[lists.question_id, lists.text, lists.where] = lists
            whole = stream.tell()
        stream.truncate(whole)
        return str(head["now"]), known
    return None, {}


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


def _searched(question: JudgedQuestion, resources: Resources, now: str) -> BranchLists:
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
    plan = resolve(request, pipeline, accepted_at=datetime.fromisoformat(now), generation=None, models={})
    answers = BranchAnswers(request, plan)
    if plan.asked:
        envelopes = {branch.name: _envelope(resources, answers, branch) for branch in plan.branches}
        answers = replace(answers, envelopes=envelopes)
    scores: dict[str, dict[str, float]] = {branch.name: {} for branch in plan.branches}
    for depth in DEPTHS if plan.asked else ():
        _complete(resources, replace(answers, plan=_cut(plan, depth)), scores)
    rankings = {name: _kept(envelope.rankings[0]) for name, envelope in answers.envelopes.items()}
    return BranchLists(question.question_id, question.text, rankings, scores, question.where)


def _envelope(resources: Resources, answers: BranchAnswers, branch: BranchPlan) -> BranchResult:
    part = BranchTask(
        resources,
        resources.store(branch.store),
        branch,
        answers.request,
        answers.request.questions,
        ends_at_s=time.monotonic() + TIMEOUT_S,
        begun_ms=0.0,
    )
    rankings = resources.pipeline.kinds.branches[branch.kind].search(part)
    return BranchResult(
        branch.name,
        EnvelopeStatus.OK,
        rankings=tuple(collapse_ranking(ranking, branch.depth) for ranking in rankings),
    )


def _cut(plan: Plan, depth: int) -> Plan:
    branches = (branch.model_copy(update={"depth": min(branch.depth, depth)}) for branch in plan.branches)
    return plan.model_copy(update={"branches": tuple(branches)})


def _complete(resources: Resources, answers: BranchAnswers, scores: Mapping[str, dict[str, float]]) -> None:
    """Adds the scores that this depth needs."""
    completed = complete(
        resources, answers, resources.pipeline.kinds.method(answers.plan.method), limit_s=TIMEOUT_S
    )
    if completed.why is not None:
        raise ServiceError(f"{completed.why.where} {completed.why.reason}: {completed.why.detail}")
    for by_branch in completed.scores:
        for name, known in by_branch.items():
            scores[name].update(known)


def _kept(ranking: Ranking) -> Ranking:
    """Without what the fusion does not read."""
    return Ranking(ranking.hits, ranking.total_matches, known_words=ranking.known_words)


TOP_K = 10


@dataclass(frozen=True, slots=True)
class _Question:
    request: Request
    envelopes: Mapping[str, BranchResult]
    scores: Scores


class OfflineFusion:
    """The rankings of recorded questions under any configuration; no store and no model is asked."""

    def __init__(self, pipeline: Pipeline, recording: Recording) -> None:
        self._pipeline = pipeline
        self._now = datetime.fromisoformat(recording.now)
        self._questions = {lists.question_id: _question(lists) for lists in recording.lists}

    def rankings(self, configuration: Configuration, *, depth: int = 100) -> dict[str, list[str]]:
        """By question id, the ten best documents, each followed by its copies, for requests of this `depth`.

        The reranker of the configuration does not take part.
        """
        pipeline = replace(self._pipeline, configurations={configuration.name: configuration})
        chosen = {"configuration": configuration.name, "depth": depth, "rerank": "off"}
        request = _question_request("?").model_copy(update=chosen)
        plan = resolve(request, pipeline, accepted_at=self._now, generation=None, models={})
        method = pipeline.kinds.method(plan.method)
        rankings: dict[str, list[str]] = {}
        for question_id, question in self._questions.items():
            fused = fuse_question(
                plan, question.envelopes, 0, question.request, method, scores=question.scores
            )
            rankings[question_id] = [
                id_
                for hit in fused.hits
                for id_ in (hit.document_id, *(copy.document_id for copy in hit.folded))
            ]
        return rankings


def _question(lists: BranchLists) -> _Question:
    envelopes = {
        name: BranchResult(name, EnvelopeStatus.OK, rankings=(ranking,))
        for name, ranking in lists.rankings.items()
    }
    return _Question(_question_request(lists.text), envelopes, lists.scores)


def _question_request(text: str) -> Request:
    return Request(questions=(Question(text=text[:MAX_TEXT_CHARS]),), top_k=TOP_K)
