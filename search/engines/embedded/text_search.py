"""BM25 of passages and of whole documents.

Passages find the documents.  A passage's score is a weighted mean: its whole document's score has WHOLE_WEIGHT, and its own score
has the rest.  A whole document is indexed under the rid of its first passage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import tantivy
from numpy.typing import NDArray

from models.hits import Hit
from search.deadline import Deadline
from search.engines.embedded.lexical_index import LexicalSearcher, among, any_term
from search.engines.embedded.passage_rows import Rows, Scored, cut
from search.ranking_end import LEAST_CANDIDATES, TEXT_DECIMALS, WHOLE_WEIGHT

_SET_BELOW = 1_024
"""Up to this many allowed passages are named in the query.  With more, hits are fetched and then filtered."""
_MOST_CACHED = 64
"""The candidates of so many questions without filters are kept: in a process with several branches, `hyde` begins with the search of `bm25`."""
_Candidates = tuple[NDArray[np.intp], NDArray[np.float64], int | None]


@dataclass(frozen=True, slots=True)
class TextSearcher:
    """A snapshot of both indexes; threads may share it."""

    passages: LexicalSearcher
    documents: LexicalSearcher
    cache: dict[tuple[object, int], _Candidates] = field(default_factory=dict)

    def check(self) -> None:
        """Raises BadIndex if a file was written to.  A search calls it once for all questions, because it takes about a hundred calls of the system."""
        self.passages.check()
        self.documents.check()

    def search(
        self,
        rows: Rows,
        terms: Mapping[str, int],
        *,
        allowed: NDArray[np.bool_] | None,
        depth: int,
        deadline: Deadline,
    ) -> tuple[tuple[Hit, ...], int | None]:
        """The hits, and the number of all matching documents if it became known.  `rows` is always the same snapshot."""
        key = tuple(terms.items()), max(depth, LEAST_CANDIDATES)
        candidates = self.cache.get(key) if allowed is None else None
        if candidates is None:
            query = any_term(terms)
            (places, scores), total = self._candidates(rows, query, allowed, key[1], deadline)
            deadline.check()
            candidates = places, self._with_whole(rows, query, places, scores), total
            if allowed is None:
                if len(self.cache) >= _MOST_CACHED:
                    self.cache.clear()
                self.cache[key] = candidates
        places, scores, total = candidates
        ranked = cut(rows, places, scores, depth, unseen_score=-np.inf)
        assert ranked is not None  # with everything seen, `cut` never returns None
        return rows.hits(*ranked), total

    def scores(self, rows: Rows, terms: Mapping[str, int], rids: Sequence[int]) -> dict[int, float]:
        """The score of each of these passages that has one of the terms."""
        query = any_term(terms)
        matching, scores = self.passages.best(among(query, np.array(rids, np.int64)), len(rids) + 1)
        places, known = rows.at(matching)
        whole = self._with_whole(rows, query, places[known], scores[known])
        return dict(zip(matching[known].tolist(), whole.tolist(), strict=True))

    def _candidates(
        self,
        rows: Rows,
        query: tantivy.Query,
        allowed: NDArray[np.bool_] | None,
        depth: int,
        deadline: Deadline,
    ) -> tuple[Scored, int | None]:
        """The passages of the `depth` documents with the best passages, and the number of all matching documents."""
        limit = rows.likely(depth)
        if allowed is not None:
            permitted = np.flatnonzero(allowed)
            if len(permitted) <= _SET_BELOW:
                query = among(query, rows.rids[permitted])
                limit = len(permitted) + 1
            else:
                limit = int(limit * len(allowed) / len(permitted)) + 1
        while True:
            deadline.check()
            rids, scores = self.passages.best(query, limit)
            is_all = len(rids) < limit
            places, known = rows.at(rids)
            if allowed is not None:
                known &= allowed[places]
            unseen_score = -np.inf if is_all else float(scores[-1])
            ranked = cut(rows, places[known], scores[known], depth, unseen_score=unseen_score)
            if ranked is not None:
                return ranked, len(np.unique(rows.version_of[places[known]])) if is_all else None
            limit *= 4

    def _with_whole(
        self, rows: Rows, query: tantivy.Query, places: NDArray[np.intp], scores: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        if len(rows.first_rids) == len(rows.version_of):
            return scores  # each document is one passage, so both indexes give it the same score
        firsts, inverse = np.unique(rows.first_rids[rows.version_of[places]], return_inverse=True)
        matching, document_scores = self.documents.best(among(query, firsts), len(firsts) + 1)
        whole = np.zeros(len(firsts))
        whole[np.searchsorted(firsts, matching)] = document_scores
        return np.round(scores + WHOLE_WEIGHT * (whole[inverse] - scores), TEXT_DECIMALS)
