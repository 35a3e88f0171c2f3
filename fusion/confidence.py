"""The probability that a relevant document is among the first hits of a question, from signals that mean the same for
every question.

It is the product of two logistic models: whether the corpus is about the question, and whether a relevant document is
then among the first hits.

`confidence.json` has the factors, and what they were fitted on; `examples/confidence/train.py` fits them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum, log
from typing import Literal, Self

from chorale_client.request import Request
from pydantic import BaseModel, ConfigDict, model_validator

from fusion.fused_hits import FusedQuestion
from fusion.rerank import sigmoid
from models.declarations.fusion_method import BranchRanking
from models.hits import Ranking
from models.texts.known_words import knows_language

UNKNOWN = (
    "the confidence is not known: it needs the branch `vector`, an encoder that knows the namespace's language, and factors for "
    "its model (`CHORALE_CONFIDENCE_FILE`)"
)
AGREEMENT_DEPTH = 10
DECIMALS = 4


class Fitted(BaseModel):
    """A model for answers that have all of its signals."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    signals: tuple[str, ...]
    role: Literal["embedder", "reranker"]
    """The model whose scores the signals are, as in `Plan.models`."""
    fingerprints: tuple[str, ...]
    """The models of this role that the factors hold for."""
    about: Mapping[str, float]
    """The factors of the signals, and a `constant`, for P(the corpus is about the question)."""
    found: Mapping[str, float]
    """The factors of the signals and of `log_top`, and a `constant`, for P(a relevant document is there | the corpus
    is about the question)."""

    @model_validator(mode="after")
    def _has_known_terms(self) -> Self:
        if unknown := {*self.about, *self.found} - {"constant", "log_top", *self.signals}:
            raise ValueError(f"no signals: {', '.join(sorted(unknown))}")
        return self


class FittedFile(BaseModel):
    """The file with the factors."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    how: str
    """The command that wrote the file."""
    figures: Sequence[Mapping[str, object]]
    """Questions and expected calibration errors."""
    models: tuple[Fitted, ...]
    """The first one that fits an answer counts."""


def signals_of(rankings: Sequence[BranchRanking], answered: Mapping[str, Ranking]) -> dict[str, float]:
    """The signals of the collapsed rankings, of the branches that have answered.

    `cosine` is the best of the branch `vector`.  Where its encoder hardly knows the words, cosines mean something else than where
    the factors were fitted, and there is no signal.  `agreement` says how alike the first ten of BM25 and of the vectors are:
    Σ 1/(rank in one × rank in the other), divided by its highest value; 0 if they share none, 1 if they are equal.
    """
    by_kind = {
        ranking.kind or ranking.name: ranking for ranking in reversed(rankings) if ranking.name in answered
    }
    vector, lexical = by_kind.get("vector"), by_kind.get("bm25")
    if vector is None or not vector.hits or not knows_language(answered[vector.name].known_words):
        return {}
    signals = {"cosine": vector.hits[0].score}
    if lexical is not None:
        ranks = {id_: rank for rank, id_ in enumerate(lexical.ids[:AGREEMENT_DEPTH], start=1)}
        shared = [
            1 / (ranks[id_] * rank)
            for rank, id_ in enumerate(vector.ids[:AGREEMENT_DEPTH], start=1)
            if id_ in ranks
        ]
        signals["agreement"] = fsum(shared) / fsum(1 / rank**2 for rank in range(1, AGREEMENT_DEPTH + 1))
    return signals


def confidence(
    question: FusedQuestion, request: Request, fitted: Sequence[Fitted], models: Mapping[str, str]
) -> float | None:
    """P(a relevant document is among the first `offset` + `top_k` hits); None if nothing was fitted for such answers.

    `models` are the fingerprints of the plan.  An answer without hits has 0.
    """
    if not question.hits and not request.offset:
        return 0.0
    for model in fitted:
        if models.get(model.role) in model.fingerprints and question.signals.keys() >= set(model.signals):
            terms = {**question.signals, "constant": 1.0, "log_top": log(request.offset + request.top_k)}
            return round(_share(model.about, terms) * _share(model.found, terms), DECIMALS)
    return None


def _share(factors: Mapping[str, float], terms: Mapping[str, float]) -> float:
    return sigmoid(fsum(factor * terms[name] for name, factor in factors.items()))
