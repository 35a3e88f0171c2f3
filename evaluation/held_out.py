"""How well a reranker orders the candidates of held-out questions, at the weight that suits it best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from evaluation.judged_candidates import JudgedQuestion
from evaluation.metrics import measure_each
from evaluation.paired import paired_gain
from fusion.rerank import min_max, sigmoid

WEIGHTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@dataclass(frozen=True, slots=True)
class Blend:
    """A model's figures on the held-out questions."""

    weight: float
    """The reranker's share of the score, of WEIGHTS, that gives the best `ndcg`."""
    ndcg: float
    """nDCG@10 at that weight."""
    alone: float
    """nDCG@10 at weight 1."""
    fused: float
    """nDCG@10 of the fused order."""
    low: float
    """Lower end of the 95 % interval of `ndcg - fused`, paired by question."""
    high: float


def best_blend(questions: Sequence[JudgedQuestion], logits: Sequence[Sequence[float]]) -> Blend:
    """`logits`: of each question's first candidates, in their order; the other candidates stay below."""
    fused = _values(questions, logits, 0.0)
    at = {weight: _values(questions, logits, weight) for weight in WEIGHTS}
    weight = max(WEIGHTS, key=lambda one: (fmean(at[one]), -one))
    gain = paired_gain(at[weight], fused)
    return Blend(weight, fmean(at[weight]), fmean(at[1.0]), fmean(fused), gain.low, gain.high)


def _values(
    questions: Sequence[JudgedQuestion], logits: Sequence[Sequence[float]], weight: float
) -> list[float]:
    """nDCG@10 of each question, blended as `fusion.rerank` blends it."""
    rankings = {}
    for question, scores in zip(questions, logits, strict=True):
        shares = min_max([one.score for one in question.candidates], len(question.candidates))
        blended = [
            (1 - weight) * share + weight * sigmoid(logit)
            for share, logit in zip(shares, scores, strict=False)
        ]
        order = sorted(range(len(blended)), key=lambda at: (-blended[at], at))
        order += range(len(blended), len(shares))
        rankings[question.question_id] = [question.candidates[at].document_id for at in order]
    each = measure_each({one.question_id: one.grades for one in questions}, rankings)["ndcg@10"]
    return [each[one.question_id] for one in questions]
