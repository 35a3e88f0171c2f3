"""Chooses a configuration for judged questions by cross-validation, on recorded branch lists.

The search climbs (`evaluation.tuning.climbing`) from the best of the configurations and methods that there are, as long as nDCG@10 rises by
.002 on the questions it may see.  Each question is held out once: it counts for the configuration that was chosen without it.  The
tuned configuration is better only if these held-out values are, beyond chance, above those of the existing configuration that is
best on all questions.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from config.declarations import Configuration, Pipeline
from evaluation.judged.collection import Judgements
from evaluation.judged.metrics import Gain, paired_gain
from evaluation.tuning.branch_lists import OfflineFusion, Recording
from evaluation.tuning.climbing import Search, Values
from fusion.question_terms import QUESTION_TYPES, question_type
from models.errors import ServiceError

MEASURE = "ndcg@10"
FOLDS = 5
FEWEST_QUESTIONS = 20
"""With fewer, nothing is learned."""
FEWEST_OF_A_TYPE = 40
"""A type with fewer questions to learn from has no weights of its own."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: a way to rank, its nDCG@10, and how it compares."""

    name: str
    mean: float
    gain: Gain
    """Over `Tuning.default`; for the tuned rows on held-out questions."""
    is_held_out: bool = False
    """Whether it was chosen by judged questions, and each of its values is of a question that was held out."""

    def to_wire(self) -> dict[str, Any]:
        held_out = {"held_out": True} if self.is_held_out else {}
        return {"name": self.name, MEASURE: round(self.mean, 4), "gain": self.gain.to_wire(), **held_out}


@dataclass(frozen=True, slots=True)
class Tuning:
    """What `chorale tune` found."""

    questions: int
    types: Mapping[str, int]
    """Number of questions by type."""
    default: str
    rows: Sequence[Row]
    """Existing configurations, methods, and then the tuned ones."""
    best_existing: str
    """The existing configuration with the highest mean."""
    over_best: Gain
    """Held out: the tuned configuration over `best_existing`, which was chosen by all questions and has the advantage."""
    by_type: Gain | None
    """Held out: what weights by type of question add; None if no type has enough questions."""
    configuration: Configuration
    """Chosen by all questions."""
    tried: int
    """Number of configurations that were measured."""
    ends_at: str | None = None
    """The existing configuration that ranks every question as `configuration` does."""

    @property
    def is_better(self) -> bool:
        return self.over_best.is_better

    @property
    def verdict(self) -> str:
        """`better` or `not distinguishable`.

        A loss is never called worse: the existing configuration was chosen with hindsight, and of two that are nearly equal
        the one that wins on four fifths tends to lose on the last.
        """
        return "better" if self.is_better else "not distinguishable"

    def to_wire(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "questions": self.questions,
            "types": dict(self.types),
            "default": self.default,
            "best_existing": self.best_existing,
            "over_best": self.over_best.to_wire(),
            "by_type": None if self.by_type is None else self.by_type.to_wire(),
            "tried": self.tried,
            "ends_at": self.ends_at,
            "configuration": self.configuration.model_dump(exclude_defaults=True),
            "rows": [row.to_wire() for row in self.rows],
        }

    def row(self, name: str) -> Row:
        return next(row for row in self.rows if row.name == name)


def tune(
    pipeline: Pipeline,
    recording: Recording,
    judgements: Judgements,
    *,
    own: Set[str] = frozenset(),
    name: str = "tuned",
    seed: int = 0,
    progress: Callable[[str, int], None] = lambda what, configurations: None,
) -> Tuning:
    """Search, cross-validate and compare; the same seed and recording give the same result.

    Calls `progress(what, 1)` after each configuration that was measured.  Raises ServiceError for too few questions.
    """
    count = len(recording.lists)
    check_enough(count)
    values = Values(OfflineFusion(pipeline, recording), judgements, own, progress)
    search = Search(pipeline, recording, values, name)
    kinds = [question_type(lists.text) for lists in recording.lists]
    untyped, typed = _held_out(search, kinds, seed)
    by_type = paired_gain(typed, untyped, seed=seed) if typed != untyped else None
    everything = range(count)
    chosen = search.best(everything)
    final = untyped
    if by_type is not None and by_type.is_better:
        chosen, final = _with_types(search, chosen, kinds, everything), typed
    existing = {each.name: values.of(each) for each in search.existing.values()}
    best_existing = max(existing, key=lambda configuration: fmean(existing[configuration]))
    tuned = {name: untyped, **({f"{name}, weights by type": typed} if by_type else {})}
    return Tuning(
        questions=count,
        types={kind: kinds.count(kind) for kind in QUESTION_TYPES if kind in kinds},
        default=search.default,
        rows=_rows(search, tuned, seed),
        best_existing=best_existing,
        over_best=paired_gain(final, existing[best_existing], seed=seed),
        by_type=by_type,
        configuration=chosen,
        tried=len(values),
        ends_at=next((each for each, its in existing.items() if its == values.of(chosen)), None),
    )


def _rows(search: Search, tuned: Mapping[str, Sequence[float]], seed: int) -> list[Row]:
    """Existing configurations, methods, and then what was tuned, each over the default configuration."""
    default = search.values.of(search.existing[search.default])
    methods = {f"fusion={name}": configuration for name, configuration in search.methods.items()}
    fixed = {
        name: search.values.of(configuration) for name, configuration in (search.existing | methods).items()
    }
    return [
        Row(name, fmean(row_values), paired_gain(row_values, default, seed=seed), is_held_out=name in tuned)
        for name, row_values in (fixed | dict(tuned)).items()
    ]


def _held_out(search: Search, kinds: Sequence[str], seed: int) -> tuple[list[float], list[float]]:
    """The held-out values of the tuned configuration, and of the one with weights by type."""
    untyped, typed = [0.0] * len(kinds), [0.0] * len(kinds)
    for seen, out in folds(len(kinds), seed):
        chosen = search.best(seen)
        for values, configuration in ((untyped, chosen), (typed, _with_types(search, chosen, kinds, seen))):
            all_values = search.values.of(configuration)
            for place in out:
                values[place] = all_values[place]
    return untyped, typed


def folds(count: int, seed: int) -> Iterator[tuple[list[int], list[int]]]:
    """For each fifth of the questions, the places of the others, which a choice may see, and its own."""
    places = list(range(count))
    random.Random(seed).shuffle(places)
    for fold in range(FOLDS):
        out = places[fold::FOLDS]
        yield sorted(set(places) - set(out)), out


def check_enough(count: int) -> None:
    """Raises ServiceError for too few questions."""
    if count < FEWEST_QUESTIONS:
        raise ServiceError(f"{count} judged questions are too few to learn from; at least {FEWEST_QUESTIONS}")


def _with_types(
    search: Search, configuration: Configuration, kinds: Sequence[str], seen: Sequence[int]
) -> Configuration:
    """`one` with weights of its own for each type that has enough questions among `seen`."""
    weights_by_type = {}
    for kind in QUESTION_TYPES:
        places = [place for place in seen if kinds[place] == kind]
        if len(places) >= FEWEST_OF_A_TYPE:
            weights = search.best_weights(configuration, places)
            if weights != search.pipeline.shares_of(configuration):
                weights_by_type[kind] = weights
    return (
        configuration.model_copy(update={"weights_by_type": weights_by_type})
        if weights_by_type
        else configuration
    )
