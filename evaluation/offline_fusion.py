"""Fuses recorded branch lists again as any configuration would, by the planner and the fusion of the service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from chorale_client.limits import MAX_TEXT_CHARS
from chorale_client.request import Question, Request
from chorale_client.wire_names import EnvelopeStatus

from config.declarations import Configuration, Pipeline
from evaluation.branch_lists import BranchLists, Recording
from fusion.fuse import fuse_question
from fusion.rankings import Scores
from models.branch_result import BranchResult
from tasks.request.planning import resolve

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
        self._questions = {one.question_id: _question(one) for one in recording.lists}

    def rankings(self, configuration: Configuration, *, depth: int = 100) -> dict[str, list[str]]:
        """By question id, the ten best documents, each followed by its copies, for requests of this `depth`.

        The reranker of the configuration does not take part.
        """
        pipeline = replace(self._pipeline, configurations={configuration.name: configuration})
        chosen = {"configuration": configuration.name, "depth": depth, "rerank": "off"}
        request = _question_request("?").model_copy(update=chosen)
        plan = resolve(request, pipeline, accepted_at=self._now, generation=None, models={})
        method = pipeline.kinds.method(plan.method)
        found: dict[str, list[str]] = {}
        for question_id, one in self._questions.items():
            fused = fuse_question(plan, one.envelopes, 0, one.request, method, scores=one.scores)
            found[question_id] = [
                id_
                for hit in fused.hits
                for id_ in (hit.document_id, *(copy.document_id for copy in hit.folded))
            ]
        return found


def _question(lists: BranchLists) -> _Question:
    envelopes = {
        name: BranchResult(name, EnvelopeStatus.OK, rankings=(ranking,))
        for name, ranking in lists.rankings.items()
    }
    return _Question(_question_request(lists.text), envelopes, lists.scores)


def _question_request(text: str) -> Request:
    return Request(questions=(Question(text=text[:MAX_TEXT_CHARS]),), top_k=TOP_K)
