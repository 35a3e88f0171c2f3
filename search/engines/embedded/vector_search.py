"""Exact vector search: the cosine of every passage, under any filter.

Products with all vectors, or with their codes, find the passages that can belong to a ranking.  The scores of these are computed again, each
by itself.  The caller sets the number of BLAS threads; one is fastest here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.documents import Matrix, Vector
from models.hits import Hit
from search.deadline import Deadline
from search.engines.embedded.passage_rows import Rows, cut
from search.engines.embedded.vector_segments import Questions, Segment
from search.engines.embedded.vector_table import Vectors
from search.ranking_end import COSINE_DECIMALS

_QUESTIONS_AT_ONCE = 16
"""One product for several questions reads the vectors once, and holds this many scores for every passage."""
_SAMPLE = 32_768
"""A sample of this many scores shows well enough where the best begin."""
_LAST_DECIMAL = 10.0**-COSINE_DECIMALS


def search_matrix(
    rows: Rows,
    vectors: Vectors,
    questions: Matrix,
    *,
    allowed: NDArray[np.bool_] | None,
    depth: int,
    deadline: Deadline,
) -> list[tuple[Hit, ...]]:
    """A ranking for each row of `questions`, shape (q, d)."""
    # The last item stands for vectors whose row is -1.
    is_searched = np.append(rows.alive if allowed is None else allowed, False)
    parts = [
        _Part(segment, places, of_segment[places])
        for segment, of_segment in zip(vectors.segments, vectors.rows, strict=True)
        if len(places := np.flatnonzero(is_searched[of_segment]))
    ]
    if not parts:
        return [() for _ in questions]
    sizes = [len(part.places) for part in parts]
    firsts = np.cumsum([0, *sizes[:-1]], dtype=np.intp)
    searched = _Searched(rows, parts, firsts, np.concatenate([part.rows for part in parts]))
    rankings = []
    for first in range(0, len(questions), _QUESTIONS_AT_ONCE):
        together = questions[first : first + _QUESTIONS_AT_ONCE]
        coded = Questions(together)
        products = [part.segment.products(coded, part.places) for part in parts]
        scores = np.concatenate([of_part for of_part, _ in products], axis=1)
        errors = np.max([errors for _, errors in products], axis=0)
        for question, of_question, error in zip(together, scores, errors.tolist(), strict=True):
            deadline.check()
            rankings.append(searched.ranking(question, of_question, error, depth))
    return rankings


@dataclass(frozen=True, slots=True)
class _Part:
    """The vectors of a segment that are searched."""

    segment: Segment
    places: NDArray[np.intp]
    rows: NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class _Searched:
    rows: Rows
    parts: list[_Part]
    firsts: NDArray[np.intp]
    """For each part the number of passages in the parts before."""
    places: NDArray[np.intp]
    """The rows of all parts."""

    def ranking(self, question: Vector, scores: Vector, error: float, depth: int) -> tuple[Hit, ...]:
        """`scores` are products, each wrong by at most `error`."""
        taken = self.rows.likely(depth)
        while taken < len(scores):
            best = np.flatnonzero(scores >= _beginning(scores, taken))
            # What can score as high as the end of a ranking of these passages alone belongs to the candidates.
            least = self._end(best, self._exact(best, question), depth) - 2 * _LAST_DECIMAL
            best = np.flatnonzero(scores >= least - error)
            exact = self._exact(best, question)
            best, exact = best[exact > least], exact[exact > least]
            ranked = cut(self.rows, self.places[best], exact, depth, unseen_score=least)
            if ranked is not None:
                return self.rows.hits(*ranked)
            taken *= 4
        exact = self._exact(np.arange(len(scores)), question)
        ranked = cut(self.rows, self.places, exact, depth, unseen_score=-np.inf)
        assert ranked is not None  # with everything seen, `cut` never returns None
        return self.rows.hits(*ranked)

    def _end(self, chosen: NDArray[np.intp], scores: NDArray[np.float64], depth: int) -> float:
        """The best score of the `depth`-th document, or of the last one if there are fewer."""
        order = scores.argsort()[::-1]
        firsts = np.unique(self.rows.version_of[self.places[chosen[order]]], return_index=True)[1]
        return float(scores[order[np.sort(firsts)[:depth][-1]]])

    def _exact(self, chosen: NDArray[np.intp], question: Vector) -> NDArray[np.float64]:
        """The score of each chosen passage, which depends on no other passage; `chosen` ascends."""
        borders = np.searchsorted(chosen, self.firsts).tolist()
        passages = [
            part.segment.vectors[part.places[chosen[begin:end] - first]]
            for part, first, begin, end in zip(
                self.parts, self.firsts.tolist(), borders, [*borders[1:], len(chosen)], strict=True
            )
            if begin < end
        ]
        scores = (np.concatenate(passages) * question).sum(axis=1, dtype=np.float64)
        return np.asarray(scores, np.float64).round(COSINE_DECIMALS)


def _beginning(scores: Vector, taken: int) -> float:
    """A score that about `taken` of the scores reach."""
    sample = scores[:: max(1, len(scores) // _SAMPLE)]
    place = len(sample) - max(1, taken * len(sample) // len(scores))
    return float(np.partition(sample, place)[place])
