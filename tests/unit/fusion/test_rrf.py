import pytest

from fusion.candidates import fuse_rankings
from fusion.methods import rrf
from tests.unit.fusion.builders import ranking


def test_scores_are_weight_over_k_plus_rank_summed() -> None:
    lexical = ranking("bm25", ["a", "b"], weight=0.3)
    dense = ranking("vector", ["b", "c", "a"], weight=0.4)
    fused = {one.hit.document_id: one.score for one in fuse_rankings([lexical, dense], rrf.METHOD, 60)}
    assert fused == pytest.approx(
        {"b": 0.3 / 62 + 0.4 / 61, "a": 0.3 / 61 + 0.4 / 63, "c": 0.4 / 62}, rel=1e-11
    )
    assert list(fused) == ["b", "a", "c"]


def test_a_smaller_k_gives_the_first_ranks_more_say() -> None:
    lists = [ranking("x", ["a"]), ranking("y", ["z", "z2", "b"]), ranking("w", ["z3", "z4", "b"])]

    def position(id_: str, k: float) -> int:
        return [one.hit.document_id for one in fuse_rankings(lists, rrf.METHOD, k)].index(id_)

    assert 1 / 61 < 2 / 63
    assert position("a", 60) > position("b", 60)
    assert 1 / 1 > 2 / 3
    assert position("a", 0) < position("b", 0)
