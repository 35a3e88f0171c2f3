"""nDCG@10, recall and reciprocal rank, computed by `ir-measures` (which runs trec_eval)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.collection import Judgements
from models.errors import ServiceError

MEASURES = {"ndcg@10": "nDCG@10", "recall@10": "R@10", "recall@100": "R@100", "mrr@10": "RR@10"}
"""`ir-measures`' name of a measure by ours."""


class MeasuresMissing(ServiceError):
    """`ir-measures` is not installed."""


def measure(judgements: Judgements, rankings: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """The mean of each measure over all judged questions; a question without a ranking counts as 0.

    `rankings`: document ids, best first, by question id.  A document with the id of the question is the question itself
    (ArguAna) and is left out.  Raises MeasuresMissing.
    """
    try:
        import ir_measures
    except ImportError:
        raise MeasuresMissing("`ir-measures` is not installed; `make eval` installs it") from None
    measures = {name: ir_measures.parse_measure(theirs) for name, theirs in MEASURES.items()}
    # trec_eval sorts by score and breaks ties by id; the negated rank as score keeps our order.
    run = {
        question_id: {
            document_id: -float(rank)
            for rank, document_id in enumerate(without_itself(question_id, ranking), start=1)
        }
        for question_id, ranking in rankings.items()
    }
    grades = {question_id: dict(graded) for question_id, graded in judgements.items()}
    means = ir_measures.calc_aggregate(list(measures.values()), grades, run)
    return {name: float(means[theirs]) for name, theirs in measures.items()}


def without_itself(question_id: str, ranking: Sequence[str]) -> list[str]:
    """The ranking without the question's own document and without repetitions."""
    return [document_id for document_id in dict.fromkeys(ranking) if document_id != question_id]
