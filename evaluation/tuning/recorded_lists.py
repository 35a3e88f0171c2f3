"""Tunes on the lists that past requests have recorded: what `chorale tune --judgements` finds, without a search; and the weights
alone, within bounds, of a configuration that adapts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from config.declarations import Configuration, Pipeline
from evaluation.judged.judged_comparison import QuestionName, is_relevant
from evaluation.judged.metrics import Gain, paired_gain
from evaluation.recorded.request import RecordedRequest
from evaluation.tuning.branch_lists import BranchLists, OfflineFusion, Recording
from evaluation.tuning.climbing import Search, Values
from evaluation.tuning.cross_validation import Tuning, check_enough, folds, tune
from models.errors import ServiceError
from models.tables.audit import RequestRow
from records.judgements.pooling import JudgedQuestion


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
        for place, position in enumerate(recorded.plan.searched):
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
    progress = _until(limit_s, len(lists))
    return tune(pipeline, _recording(lists), _grades(lists, judged), name=name, progress=progress)


@dataclass(frozen=True, slots=True)
class ChosenWeights:
    """The weights that judged questions choose, and whether they are better than those that there are."""

    weights: Mapping[str, float]
    """By branch; their sum is 1."""
    gain: Gain
    """Held out."""


def choose_weights(
    rows: Iterable[RequestRow],
    pipeline: Pipeline,
    judged: Mapping[QuestionName, JudgedQuestion],
    *,
    name: str,
    bounds: Mapping[str, tuple[float, float]],
    limit_s: float,
    seed: int = 0,
) -> ChosenWeights:
    """Climb from the weights of the configuration `name`, with everything else as it is.

    Only questions count to which all its branches have answered.  Raises ServiceError for too few of them, and if it takes longer
    than `limit_s`.
    """
    start = pipeline.configurations[name]
    needed = {branch.name for branch in pipeline.branches_of(start)}
    known = recorded_lists(rows, pipeline, judged)
    lists = {question: each for question, each in known.items() if needed <= each.rankings.keys()}
    check_enough(len(lists))
    recording, progress = _recording(lists), _until(limit_s, len(lists))
    values = Values(OfflineFusion(pipeline, recording), _grades(lists, judged), frozenset(), progress)
    search = Search(pipeline, recording, values, name, bounds)

    def chosen(questions: Sequence[int]) -> Configuration:
        return start.model_copy(update={"weights": search.best_weights(start, questions)})

    held_out = [0.0] * len(lists)
    for seen, out in folds(len(lists), seed):
        all_values = values.of(chosen(seen))
        for place in out:
            held_out[place] = all_values[place]
    weights = chosen(range(len(lists))).weights or {}
    return ChosenWeights(weights, paired_gain(held_out, values.of(start), seed=seed))


def _recording(lists: Mapping[QuestionName, BranchLists]) -> Recording:
    return Recording(list(lists.values()), datetime.now(UTC), has_all_scores=False)


def _grades(
    lists: Mapping[QuestionName, BranchLists], judged: Mapping[QuestionName, JudgedQuestion]
) -> dict[str, Mapping[str, int]]:
    return {each.question_id: judged[question].grades for question, each in lists.items()}


def _until(limit_s: float, questions: int) -> Callable[[str, int], None]:
    """Raises ServiceError when it is called after the time."""
    ends_at_s = time.monotonic() + limit_s

    def check_time(what: str, configurations: int) -> None:
        if time.monotonic() > ends_at_s:
            raise ServiceError(f"{questions} questions take longer than {limit_s:g} s here")

    return check_time
