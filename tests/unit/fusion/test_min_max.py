"""`min-max` fuses scores; the weight of a dense branch falls where its encoder does not know the language."""

from dataclasses import replace

import pytest

from fusion.candidates import fuse_rankings
from fusion.fused_hits import FusedQuestion
from fusion.methods import min_max
from fusion.reliability import KNOWN, LEAST, reliability
from models.envelope import Envelope
from models.fusion_method import BranchRanking
from models.hits import Hit, Ranking
from tests.unit.fusion.builders import branch, fuse_question, hit, plan, request

LEXICAL = branch("bm25", 0.35).model_copy(update={"floor": 0.0})
DENSE = branch("vector", 0.65)


def scored(name: str, weight: float, floor: float | None = None, **scores: float) -> BranchRanking:
    hits = tuple(hit(id_, score=score) for id_, score in scores.items())
    return BranchRanking(name, name, weight, tuple(scores), hits, floor)


def asked(
    lexical: dict[str, float],
    dense: dict[str, float],
    *,
    known_words: float | None = None,
    method: str = "min-max",
    trust_vectors: bool = False,
) -> FusedQuestion:
    def hits(scores: dict[str, float]) -> tuple[Hit, ...]:
        return tuple(hit(id_, score=score) for id_, score in scores.items())

    vectors = Ranking(hits(dense), known_words=known_words)
    envelopes = {
        "bm25": Envelope("bm25", "ok", rankings=(Ranking(hits(lexical)),)),
        "vector": Envelope("vector", "ok", rankings=(vectors,)),
    }
    asked = plan([LEXICAL, DENSE], method=method, trust_vectors=trust_vectors)
    return fuse_question(asked, envelopes, 0, request())


def test_scores_are_scaled_between_the_floor_and_the_best_and_weighted() -> None:
    lexical = scored("bm25", 0.4, 0.0, a=10.0, b=5.0)
    dense = scored("vector", 0.6, b=0.8, a=0.5, c=0.2)
    fused = {one.hit.document_id: one.score for one in fuse_rankings([lexical, dense], min_max.METHOD, 60)}
    assert fused == pytest.approx({"a": 0.4 + 0.6 * 0.5, "b": 0.4 * 0.5 + 0.6, "c": 0.0}, rel=1e-11)


def test_a_score_below_the_floor_is_the_lowest_itself() -> None:
    assert min_max.normalised([2.0, -2.0], 0.0) == [1.0, 0.0]


def test_how_far_bm25_leads_counts_and_not_only_its_order() -> None:
    """RRF puts `b` first in both cases, because it only sees that `b` is second."""
    dense = {"b": 0.62, "x": 0.61, "a": 0.60, "y": 0.3}
    ahead = asked({"a": 30.0, "b": 6.0}, dense)
    close = asked({"a": 6.1, "b": 6.0}, dense)
    assert (ahead.hits[0].document_id, close.hits[0].document_id) == ("a", "b")
    assert asked({"a": 30.0, "b": 6.0}, dense, method="rrf").hits[0].document_id == "b"


@pytest.mark.parametrize(
    ("share", "factor"), [(None, 1), (0.93, 1), (KNOWN, 1), (KNOWN / 2, 1 / 4), (0.01, LEAST), (0, LEAST)]
)
def test_reliability_falls_with_the_share_of_known_words(share: float | None, factor: float) -> None:
    assert reliability(share) == pytest.approx(factor)


def test_in_an_unknown_language_the_vectors_weigh_less_and_the_hit_says_so() -> None:
    lexical, dense = {"a": 9.0, "b": 3.0}, {"b": 0.5, "c": 0.4, "a": 0.3}
    known, unknown = (asked(lexical, dense, known_words=one) for one in (0.9, 0.0))
    assert (known.hits[0].document_id, unknown.hits[0].document_id) == ("b", "a")
    for found in (known, unknown):
        for one in found.hits:
            assert one.score == pytest.approx(
                sum(said.weight * said.normalised for said in one.branches.values())
            )
    assert known.hits[0].branches["vector"].weight == 0.65
    assert unknown.hits[1].branches["vector"].weight == pytest.approx(0.65 * LEAST)


def test_ranks_presets_and_a_configuration_that_trusts_vectors_keep_the_weights_as_declared() -> None:
    lexical, dense = {"a": 9.0}, {"b": 0.5}
    for fused in (
        asked(lexical, dense, known_words=0.0, method="rrf"),
        asked(lexical, dense, known_words=0.0, method="weaviate-relative"),
        asked(lexical, dense, known_words=0.0, trust_vectors=True),
    ):
        assert fused.hits[0].branches["vector"].weight == 0.65


def test_the_figure_of_a_ranking_goes_over_the_wire() -> None:
    given = Ranking((hit("a"),), known_words=0.0)
    assert Ranking.from_wire(given.to_wire()) == given
    assert "known_words" not in replace(given, known_words=None).to_wire()
    assert replace(given, known_words="many").complaint() is not None  # type: ignore[arg-type]
