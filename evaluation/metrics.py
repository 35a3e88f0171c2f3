"""nDCG@10, recall and reciprocal rank, computed by `ir-measures` (which runs trec_eval)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum

from evaluation.collection import Judgements
from models.errors import ServiceError

MEASURES = {"ndcg@10": "nDCG@10", "recall@10": "R@10", "recall@100": "R@100", "mrr@10": "RR@10"}
"""`ir-measures`' name of a measure by ours."""


def measure(judgements: Judgements, rankings: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """The mean of each measure over all judged questions; a question without a ranking counts as 0.

    `rankings`: document ids, best first, by question id.  A document with the id of the question is the question itself
    (ArguAna) and is left out.  Raises ServiceError without `ir-measures`.
    """
    each = measure_each(judgements, rankings)
    return {name: fsum(values.values()) / max(1, len(values)) for name, values in each.items()}


def measure_each(
    judgements: Judgements, rankings: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, float]]:
    """The value of every judged question, by measure and question id; otherwise like `measure`."""
    try:
        import ir_measures
    except ImportError:
        raise ServiceError(
            "`ir-measures` is not installed; `make eval` or `pip install ir-measures` installs it"
        ) from None
    measures = {ir_measures.parse_measure(theirs): name for name, theirs in MEASURES.items()}
    # trec_eval sorts by score and breaks ties by id; the negated rank as score keeps our order.
    run = {
        question_id: {
            document_id: -float(rank)
            for rank, document_id in enumerate(without_itself(question_id, ranking), start=1)
        }
        for question_id, ranking in rankings.items()
    }
    grades = {question_id: dict(graded) for question_id, graded in judgements.items()}
    each = {name: dict.fromkeys(judgements, 0.0) for name in MEASURES}
    for one in ir_measures.iter_calc(list(measures), grades, run):
        each[measures[one.measure]][one.query_id] = float(one.value)
    return each


def without_itself(question_id: str, ranking: Sequence[str]) -> list[str]:
    """The ranking without the question's own document and without repetitions."""
    return [document_id for document_id in dict.fromkeys(ranking) if document_id != question_id]
