"""Fits the factors of `fusion.confidence` on judged collections, through the real pipeline, and checks their calibration.

Each collection is asked its own questions, and as many that belong to the other collections, which nothing in it answers.
Both halves weigh the same, and so does each collection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice, zip_longest
from math import inf
from typing import Any

import numpy as np
from chorale_client.answer import Answer, QuestionAnswer
from chorale_client.request import Request
from chorale_client.wire_names import Status
from numpy.typing import NDArray

from evaluation.collection import Collection
from evaluation.run import QUESTIONS_A_REQUEST, plain_request, ranked_documents
from fusion.confidence import Fitted
from models.batching import in_batches
from models.errors import ServiceError

Values = NDArray[np.float64]

BINS = 10
_PENALTY = 1e-5
_LEAST = 1e-6


@dataclass(frozen=True, slots=True)
class Bin:
    """The answers whose probability lies in [low, low + 1/BINS)."""

    low: float
    share: float
    """Of all answers."""
    promised: float
    """Mean probability."""
    kept: float
    """Share of the answers where it came true."""


def fit_product(
    signals: Values, log_top: Values, came_true: Values, weights: Values
) -> tuple[Values, Values]:
    """The factors of two logistic models whose product is the probability: (constant, signals …), and (constant, signals …,
    log_top).

    No factor but a constant is below 0: a better signal never lowers the probability.  Maximum likelihood by L-BFGS-B, with a
    small penalty that keeps the factors finite.  Raises ServiceError without SciPy.
    """
    try:
        from scipy.optimize import minimize  # type: ignore[import-untyped]
    except ImportError:
        raise ServiceError("SciPy is not installed; `make eval` or `pip install scipy` installs it") from None
    about = np.column_stack([np.ones(len(signals)), signals])
    about_and_top = np.column_stack([about, log_top])
    weights, width = weights / weights.sum(), about.shape[1]

    def loss(factors: Values) -> tuple[float, Values]:
        is_about, is_found = _logistic(about @ factors[:width]), _logistic(about_and_top @ factors[width:])
        probability = np.clip(is_about * is_found, _LEAST, 1 - _LEAST)
        missed = -(
            weights * (came_true * np.log(probability) + (1 - came_true) * np.log(1 - probability))
        ).sum()
        # d loss / d said x said, which both slopes share
        slope = weights * (probability - came_true) / (1 - probability)
        slopes = [about.T @ (slope * (1 - is_about)), about_and_top.T @ (slope * (1 - is_found))]
        return float(missed + _PENALTY * factors @ factors), np.concatenate(slopes) + 2 * _PENALTY * factors

    size = 2 * width + 1
    free = {0, width}
    bounds = [(None if place in free else 0.0, None) for place in range(size)]
    start = np.array([-5.0 if place == 0 else 0.0 if place == width else 1.0 for place in range(size)])
    factors: Values = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return factors[:width], factors[width:]


def product(about: Values, found: Values, signals: Values, log_top: Values) -> Values:
    """The probabilities that the factors of `fit_product` give."""
    columns = np.column_stack([np.ones(len(signals)), signals])
    return _logistic(columns @ about) * _logistic(np.column_stack([columns, log_top]) @ found)


def _logistic(values: Values) -> Values:
    shares: Values = 1 / (1 + np.exp(-np.clip(values, -500, 500)))
    return shares


def reliability_table(probabilities: Values, came_true: Values, weights: Values) -> list[Bin]:
    """The bins that have answers, lowest first."""
    places = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    whole = weights.sum()
    return [
        Bin(
            place / BINS,
            float(weights[here].sum() / whole),
            float(np.average(probabilities[here], weights=weights[here])),
            float(np.average(came_true[here], weights=weights[here])),
        )
        for place in range(BINS)
        if (here := places == place).any() and weights[here].sum() > 0
    ]


def calibration_error(table: Sequence[Bin]) -> float:
    """Expected calibration error (Naeini, Cooper and Hauskrecht, AAAI 2015): Σ share × |promised − kept|."""
    return sum(row.share * abs(row.promised - row.kept) for row in table)


TOPS = (1, 2, 3, 5, 10, 20, 50, 100)
"""The values of `top_k` that every answer is judged at."""
SETS: Sequence[tuple[str, tuple[str, ...]]] = (
    ("reranker", ("rerank", "rerank_gap", "agreement")),
    ("reranker", ("rerank", "rerank_gap")),
    ("embedder", ("cosine", "agreement")),
    ("embedder", ("cosine",)),
)
"""Role of the model, and signals: the first set that an answer has counts."""


@dataclass(frozen=True, slots=True)
class Judged:
    """An answer: its signals, and the rank of the first relevant document."""

    signals: Mapping[str, float]
    rank: float
    """`inf` if none was found."""
    weight: float
    is_own: bool
    """Whether the question belongs to the collection."""


@dataclass(frozen=True, slots=True)
class Check:
    """How well the model keeps its promises on a collection that it was not fitted on."""

    collection: str
    questions: int
    error: float
    """Expected calibration error over all of TOPS."""
    error_at: Mapping[int, float]
    """By `top_k`."""
    table: Sequence[Bin]
    abstained: tuple[float, float]
    """Shares of the own and of the foreign questions with a confidence below .5 at `top_k` 5."""


def spaced(collection: Collection, count: int | None) -> Collection:
    """The collection with `count` questions that lie evenly in it: neighbours are often about one document."""
    ids = list(collection.questions)
    if count is None or count >= len(ids):
        return collection
    return collection.only(ids[place * len(ids) // count] for place in range(count))


def foreign(collection: Collection, others: Sequence[Collection], count: int) -> list[str]:
    """The first questions of the other collections, in turns."""
    turns = zip_longest(*(other.questions.values() for other in others if other is not collection))
    return list(islice((text for text in chain.from_iterable(turns) if text is not None), count))


def judged(
    collection: Collection,
    others: Sequence[Collection],
    ask: Callable[[Request], Answer],
    *,
    configuration: str | None = None,
    progress: Callable[[str, int], None] = lambda name, questions: None,
) -> list[Judged]:
    """The answers to the collection's own questions and to foreign ones.  Raises ServiceError for one that is not whole."""
    own = list(collection.questions)
    strange = foreign(collection, others, len(own))
    questions: list[tuple[str | None, str]] = [(id_, collection.questions[id_]) for id_ in own]
    questions += [(None, text) for text in strange]
    results = []
    for batch in in_batches(questions, QUESTIONS_A_REQUEST):
        texts = [text for _, text in batch]
        options: dict[str, Any] = {"configuration": configuration, "include": ["ids", "explanation"]}
        answer = ask(plain_request(texts, collection.namespace, **options))
        for (id_, text), question in zip(batch, answer.questions, strict=True):
            if question.status != Status.COMPLETE:
                why = ", ".join(f"{missing.where} {missing.reason}" for missing in answer.degraded)
                raise ServiceError(f"{collection.name}: {text[:80]!r} was answered in part: {why}")
            relevant = collection.judgements[id_] if id_ is not None else {}
            is_own = id_ is not None
            weight = 0.5 / len(own if is_own else strange)
            results.append(Judged(question.signals, _first(question, relevant), weight, is_own))
        progress(collection.name, len(batch))
    return results


def _first(question: QuestionAnswer, grades: Mapping[str, int]) -> float:
    ranks = (rank for rank, id_ in enumerate(ranked_documents(question), start=1) if grades.get(id_, 0) > 0)
    return next(ranks, inf)


def fit(answers: Sequence[Judged], fingerprints: Mapping[str, str]) -> Iterator[Fitted]:
    """A model for each of SETS whose signals all answers have; `fingerprints` are by role."""
    for role, signals in SETS:
        if role not in fingerprints or not all(answer.signals.keys() >= set(signals) for answer in answers):
            continue
        about, found = fit_product(*_columns(answers, signals))
        named = ("constant", *signals, "log_top")
        yield Fitted(
            signals=signals,
            role=role,
            fingerprints=(fingerprints[role],),
            about=_rounded(named[:-1], about),
            found=_rounded(named, found),
        )


def _rounded(names: Sequence[str], factors: Values) -> dict[str, float]:
    return {name: round(value, 4) for name, value in zip(names, factors.tolist(), strict=True)}


def check(name: str, answers: Sequence[Judged], model: Fitted) -> Check:
    """The calibration of a model on answers of another collection."""
    signals, log_top, came_true, weights = _columns(answers, model.signals)
    about, found = (np.array(list(factors.values())) for factors in (model.about, model.found))
    probabilities = product(about, found, signals, log_top)
    table = reliability_table(probabilities, came_true, weights)
    error_at, shares = {}, (0.0, 0.0)
    for place, top in enumerate(TOPS):
        here = slice(place, None, len(TOPS))
        error_at[top] = calibration_error(
            reliability_table(probabilities[here], came_true[here], weights[here])
        )
        if top == 5:
            own = np.array([answer.is_own for answer in answers])
            shares = (
                float((probabilities[here][own] < 0.5).mean()),
                float((probabilities[here][~own] < 0.5).mean()),
            )
    return Check(name, len(answers), calibration_error(table), error_at, table, shares)


def _columns(answers: Sequence[Judged], signals: Sequence[str]) -> tuple[Values, Values, Values, Values]:
    """For each answer and each of TOPS: the signals; ln(top); whether a relevant document was there; the weight."""
    pairs = [(answer, top) for answer in answers for top in TOPS]
    return (
        np.array([[answer.signals[name] for name in signals] for answer, _ in pairs]),
        np.log([top for _, top in pairs]),
        np.array([float(answer.rank <= top) for answer, top in pairs]),
        np.array([answer.weight for answer, _ in pairs]),
    )


def to_wire(result: Check) -> dict[str, object]:
    """The figures of a check for the file, rounded."""
    return {
        "collection": result.collection,
        "questions": result.questions,
        "calibration_error": round(result.error, 4),
        "calibration_error_at": {str(top): round(error, 4) for top, error in result.error_at.items()},
        "table": [{name: round(value, 4) for name, value in asdict(row).items()} for row in result.table],
        "abstained_below_half": {
            "own": round(result.abstained[0], 4),
            "foreign": round(result.abstained[1], 4),
        },
    }
