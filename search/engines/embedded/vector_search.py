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
from search.engines.embedded.passage_rows import Rows, Scored, cut
from search.engines.embedded.vector_segments import Questions
from search.engines.embedded.vector_table import Vectors
from search.ranking_end import COSINE_DECIMALS

_QUESTIONS_AT_ONCE = 16
"""One product for several questions reads the vectors once, and holds this many scores for every passage."""
_GROUPS_EACH = 16
"""The scores are in so many groups for each of the best passages: few groups have two of the best scores."""
_LAST_DECIMAL = 10.0**-COSINE_DECIMALS
_NO_ROWS = np.zeros(0, np.intp)


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
    parts = vectors if allowed is None else [part.among(allowed) for part in vectors]
    parts = [part for part in parts if len(part.places)]
    if not parts:
        return [() for _ in questions]
    searched = _Searched(rows, parts, np.cumsum([0, *(len(part.places) for part in parts[:-1])]))
    rankings = []
    for first in range(0, len(questions), _QUESTIONS_AT_ONCE):
        together = questions[first : first + _QUESTIONS_AT_ONCE]
        coded = Questions(together)
        products = [part.segment.products(coded, part.places) for part in parts]
        scores = np.concatenate([part_scores for part_scores, _ in products], axis=1)
        errors = np.max([errors for _, errors in products], axis=0)
        for question, question_scores, error in zip(together, scores, errors.tolist(), strict=True):
            deadline.check()
            rankings.append(searched.ranking(question, question_scores, error, depth))
    return rankings


@dataclass(frozen=True, slots=True)
class _Searched:
    rows: Rows
    parts: Vectors
    firsts: NDArray[np.intp]
    """For each part the number of passages in the parts before."""

    def ranking(self, question: Vector, scores: Vector, error: float, depth: int) -> tuple[Hit, ...]:
        """`scores` are products, each wrong by at most `error`."""
        count = self.rows.likely(depth)
        while count < len(scores):
            beginning = _beginning(scores, count)
            best = self._exact(scores >= beginning, question)
            # What can score as high as the end of a ranking of these passages alone belongs to the candidates.
            least = self._end(*best, depth) - 2 * _LAST_DECIMAL
            more = self._exact((scores < beginning) & (scores >= least - error), question)
            places, exact = (np.concatenate(both) for both in zip(best, more, strict=True))
            chosen = exact > least
            ranked = cut(self.rows, places[chosen], exact[chosen], depth, unseen_score=least)
            if ranked is not None:
                return self.rows.hits(*ranked)
            count *= 4
        ranked = cut(
            self.rows, *self._exact(np.ones(len(scores), np.bool_), question), depth, unseen_score=-np.inf
        )
        assert ranked is not None  # with everything seen, `cut` never returns None
        return self.rows.hits(*ranked)

    def _end(self, places: NDArray[np.intp], scores: NDArray[np.float64], depth: int) -> float:
        """The best score of the `depth`-th document, or of the last one if there are fewer."""
        order = scores.argsort()[::-1]
        firsts = np.unique(self.rows.version_of[places[order]], return_index=True)[1]
        return float(scores[order[np.sort(firsts)[:depth][-1]]])

    def _exact(self, is_chosen: NDArray[np.bool_], question: Vector) -> Scored:
        """The chosen passages with their scores, each of which depends on no other passage."""
        chosen = np.flatnonzero(is_chosen)
        borders = np.searchsorted(chosen, self.firsts).tolist()
        rows, vectors = [_NO_ROWS], [question[None, :][:0]]
        for part, first, begin, end in zip(
            self.parts, self.firsts.tolist(), borders, [*borders[1:], len(chosen)], strict=True
        ):
            if begin < end:
                indices = chosen[begin:end] - first
                rows.append(part.rows[indices])
                vectors.append(part.segment.vectors[part.places[indices]])
        scores = (np.concatenate(vectors) * question).astype(np.float64).sum(axis=1)
        return np.concatenate(rows), scores.round(COSINE_DECIMALS)


def _beginning(scores: Vector, count: int) -> float:
    """A score that `count` of the scores reach, and few more: the `count`-th of the best scores of groups, whose members are far from each other."""
    each = max(1, len(scores) // (_GROUPS_EACH * count))
    groups = len(scores) // each
    best = scores[: each * groups].reshape(each, groups).max(axis=0)
    return float(np.partition(best, groups - count)[groups - count])
