"""The end of a ranking: the passage that brings the `depth`-th document.  Passage ids order equal scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from models.hits import Hit
from search.embedded.passage_rows import Rows


def cut(
    rows: Rows, found: NDArray[np.intp], scores: NDArray[np.float64], depth: int, *, unseen_score: float
) -> tuple[Hit, ...] | None:
    """The hits of the best `depth` documents among candidate rows with their scores.

    `unseen_score` is the highest score that any other row can have, -inf if there is no other row.  Returns None if
    another row could belong to the ranking: ask again with more candidates.
    """
    places, scores = _ordered(rows, found, scores)
    seen: set[int] = set()
    for size, version in enumerate(rows.version_of[places].tolist(), start=1):
        seen.add(version)
        if len(seen) == depth:
            if scores[size - 1] <= unseen_score:
                return None
            return rows.hits(places[:size], scores[:size])
    return None if unseen_score > -np.inf else rows.hits(places, scores)


def _ordered(
    rows: Rows, found: NDArray[np.intp], scores: NDArray[np.float64]
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    order = scores.argsort()[::-1]
    # `x + 0.0` is never minus zero.
    places, scores = found[order], scores[order] + 0.0
    runs: list[list[int]] = []
    for first in np.flatnonzero(scores[1:] == scores[:-1]).tolist():
        if runs and runs[-1][1] == first + 1:
            runs[-1][1] += 1
        else:
            runs.append([first, first + 2])
    for first, end in runs:
        places[first:end] = sorted(places[first:end].tolist(), key=rows.passage_ids.__getitem__)
    return places, scores
