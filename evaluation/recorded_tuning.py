"""Tunes on the lists that past requests have recorded: what `chorale tune --judgements` finds, without a search."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from config.declarations import Pipeline
from evaluation.branch_lists import BranchLists, Recording
from evaluation.judged_comparison import QuestionName, is_relevant
from evaluation.recorded_request import RecordedRequest
from evaluation.tuning import Tuning, tune
from judgements.pooling import JudgedQuestion
from models.audit_tables import RequestRow
from models.errors import ServiceError


def recorded_lists(
    rows: Iterable[RequestRow], pipeline: Pipeline, judged: Mapping[QuestionName, JudgedQuestion]
) -> dict[QuestionName, BranchLists]:
    """The lists of each judged question that has a relevant document, of the first of several requests."""
    lists: dict[QuestionName, BranchLists] = {}
    for row in rows:
        try:
            recorded = RecordedRequest.read(row, pipeline)
        except ServiceError:  # it was not searched, or another version has written it
            continue
        for place, position in enumerate(recorded.plan.asked):
            question = row.questions[position]
            name = row.namespace, question.text_hash
            rankings = {
                branch: result.rankings[place]
                for branch, result in recorded.results.items()
                if place < len(result.rankings)
            }
            if name in lists or not question.text or not rankings or not is_relevant(judged.get(name)):
                continue
            scores = recorded.completed[place] if recorded.completed else {}
            completed = {branch: scores.get(branch, {}) for branch in rankings}
            lists[name] = BranchLists("/".join(name), question.text, rankings, completed)
    return lists


def tune_recorded(
    rows: Iterable[RequestRow],
    pipeline: Pipeline,
    judged: Mapping[QuestionName, JudgedQuestion],
    *,
    name: str,
    limit_s: float,
) -> Tuning:
    """Raises ServiceError for too few questions, and if it takes longer than `limit_s`."""
    lists = recorded_lists(rows, pipeline, judged)
    recording = Recording(list(lists.values()), datetime.now(UTC), has_all_scores=False)
    ends_at_s = time.monotonic() + limit_s

    def check_time(what: str, configurations: int) -> None:
        if time.monotonic() > ends_at_s:
            raise ServiceError(f"{len(lists)} questions take longer than {limit_s:g} s here")

    grades = {each.question_id: judged[question].grades for question, each in lists.items()}
    return tune(pipeline, recording, grades, name=name, progress=check_time)
