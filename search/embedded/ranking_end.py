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
    places = found.tolist()
    names = [rows.passage_ids[row] for row in places]
    ordered = sorted(zip((-scores).tolist(), names, places, rows.version_of[found].tolist(), strict=True))
    size = len(ordered)
    seen: set[int] = set()
    for n, (opposite, _, _, version) in enumerate(ordered, start=1):
        seen.add(version)
        if len(seen) == depth:
            if -opposite <= unseen_score:
                return None
            size = n
            break
    else:
        if unseen_score > -np.inf:
            return None
    # `0.0 - x` never gives minus zero.
    return tuple(rows.hit(row, 0.0 - opposite) for opposite, _, row, _ in ordered[:size])
