"""Where the embedded store ends a ranking."""

from __future__ import annotations

from math import inf
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from models.hits import Hit
from search.documents.lookups import DocumentVersion
from search.engines.embedded.passage_rows import cut
from tests.unit.search.engines.embedded.rows import rows_of

passages = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from([-0.5, -0.0, 0.0, 0.1, 0.2, 0.3])), max_size=12
)
"""For each candidate the document that it is of, and its score."""


@given(
    passages, st.integers(1, 7), st.sampled_from([-inf, -0.5, 0.0, 0.2]), st.randoms(use_true_random=False)
)
def test_a_ranking_ends_with_the_passage_that_brings_the_last_document(
    candidates: list[tuple[int, float]], depth: int, unseen_score: float, random: Random
) -> None:
    passage_ids = [f"p{n:02}" for n in range(len(candidates))]
    random.shuffle(passage_ids)
    documents, scores = [one for one, _ in candidates], [score for _, score in candidates]
    versions = [DocumentVersion(f"d{n}", {}, "wiki", None, f"hash {n}", None) for n in range(6)]
    rows = rows_of(documents, passage_ids, versions)
    scored = cut(rows, np.arange(len(candidates)), np.array(scores), depth, unseen_score=unseen_score)

    order = sorted(range(len(candidates)), key=lambda row: (-scores[row], passage_ids[row]))
    ends = [n for n in range(1, len(order) + 1) if len({documents[row] for row in order[:n]}) == depth]
    size = ends[0] if ends else len(order)
    is_open = scores[order[size - 1]] <= unseen_score if ends else unseen_score > -inf
    expected = [
        Hit(passage_ids[row], f"d{documents[row]}", 0.0 + scores[row], "wiki", None, f"hash {documents[row]}")
        for row in order[:size]
    ]
    hits = None if scored is None else rows.hits(*scored)
    assert hits == (None if is_open else tuple(expected))
    assert "-0.0" not in repr(hits)
