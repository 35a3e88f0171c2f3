"""Branches complete each other's scores through the real queues; `tests/unit/fusion/test_methods.py` explains the scores of every method."""

from __future__ import annotations

import pytest

from tests.support.pipelines.one_process import OneProcess


def test_with_scores_every_branch_scores_every_hit_and_the_hits_score_follows(here: OneProcess) -> None:
    answer = here.ask("ERR-4711", configuration="scores", cache="bypass", include=["metadata", "explanation"])
    assert answer.status == "complete"
    assert [line.status for line in answer.stages if line.stage == "score"] == ["ok"]
    assert len(answer.hits) > 1
    for hit in answer.hits:
        assert set(hit.branches) == {"bm25", "vector", "hyde"}
        assert set(hit.found_by) == {name for name, score in hit.branches.items() if score.rank}
        by_hand = sum(score.weight * score.normalised for score in hit.branches.values())
        assert hit.score == pytest.approx(by_hand, rel=1e-9)
    # Only BM25 searches words: what has none of them gets 0.
    assert {hit.branches["bm25"].score for hit in answer.hits if "bm25" not in hit.found_by} == {0}
