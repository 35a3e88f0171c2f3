"""The signals of an answer, and the probability that they make."""

from __future__ import annotations

from math import exp, log
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.answer import Pages, answer_fields
from fusion.branch_results import BranchAnswers
from fusion.confidence import Fitted, FittedFile, confidence
from fusion.fused_hits import FusedQuestion
from fusion.rerank import Reached, rerank_question
from models.branch_result import BranchResult
from models.hits import Ranking
from tasks.wiring.pipeline import SHIPPED, read_fitted
from tests.unit.fusion.builders import RERANK, branch, branch_results, fuse_question, hit, plan, request

MINILM = read_fitted(None)[0].fingerprints[0]
MODELS = {"embedder": MINILM}


def signals(**options: Any) -> dict[str, float]:
    results = branch_results(
        bm25=[hit("a"), hit("b"), hit("c")], vector=[hit("c", score=0.7), hit("a", score=0.6)]
    )
    return dict(fuse_question(plan(), results | options, 0, request()).signals)


def test_the_agreement_is_the_sum_over_shared_documents_of_one_by_both_ranks() -> None:
    whole = sum(1 / rank**2 for rank in range(1, 11))
    # a: ranks 1 and 2; c: ranks 3 and 1
    assert signals() == pytest.approx({"cosine": 0.7, "agreement": (1 / 2 + 1 / 3) / whole})
    assert signals(bm25=BranchResult("bm25", "empty")) == {"cosine": 0.7, "agreement": 0.0}
    ten = [hit(f"d{place}", score=0.5) for place in range(12)]
    assert signals(**branch_results(bm25=ten, vector=ten))["agreement"] == pytest.approx(1)


def test_a_branch_that_did_not_answer_gives_no_signal_and_one_below_its_threshold_does() -> None:
    assert signals(bm25=BranchResult.failed("bm25", "timeout")) == {"cosine": 0.7}
    assert signals(vector=BranchResult.failed("vector", "timeout")) == {}
    # A branch of another kind has scores of its own kind, whatever its name.
    other = branch("vector").model_copy(update={"kind": "http"})
    planned, vector = plan((branch("bm25"), other)), branch_results(vector=[hit("a", score=0.7)])
    assert fuse_question(planned, vector, 0, request()).signals == {}
    search = request(thresholds={"min_branch_score": {"vector": 0.9}})
    assert fuse_question(plan(), vector, 0, search).signals["cosine"] == 0.7


@pytest.mark.parametrize(("known", "has_signals"), [(0.49, False), (0.5, True), (None, True)])
def test_cosines_of_an_encoder_that_hardly_knows_the_language_are_no_signal(
    known: float | None, has_signals: bool
) -> None:
    hits = (hit("c", score=0.7), hit("a", score=0.6))
    vector = BranchResult("vector", "ok", rankings=(Ranking(hits, known_words=known),))
    assert (signals(vector=vector) != {}) is has_signals


def fitted(role: str = "embedder", **fields: Any) -> Fitted:
    values: dict[str, Any] = {
        "signals": ("cosine",),
        "role": role,
        "fingerprints": (MINILM,),
        "about": {"constant": -2.0, "cosine": 4.0},
        "found": {"constant": 1.0, "log_top": 0.5},
    }
    return Fitted(**values | fields)


SURE = {"constant": 50.0}
HITS = fuse_question(plan(), branch_results(bm25=[hit("a")]), 0, request()).hits


def test_the_probability_can_be_computed_by_hand_from_the_signals() -> None:
    one = FusedQuestion(HITS, signals={"cosine": 0.5})
    by_hand = 1 / (1 + exp(2 - 4 * 0.5)) / (1 + exp(-1 - 0.5 * log(7)))
    assert confidence(one, request(top_k=3, offset=4), [fitted()], MODELS) == round(by_hand, 4)
    # An answer without hits has the confidence zero.  A page after the last one has no confidence.
    assert confidence(FusedQuestion(), request(), (), {}) == 0.0
    assert confidence(FusedQuestion(), request(offset=5), (), {}) is None


def test_the_first_model_that_has_its_signals_and_its_fingerprint_counts() -> None:
    models = [
        fitted("reranker", signals=("rerank",), fingerprints=("r",), about={"constant": 2.0}, found=SURE),
        fitted(signals=("cosine", "agreement"), about={"constant": 1.0}, found=SURE),
        fitted(about={"constant": 0.0}, found=SURE),
    ]
    everything = {"cosine": 0.5, "agreement": 0.5, "rerank": 3.0}
    cosine = FusedQuestion(HITS, signals={"cosine": 0.5})
    whole = FusedQuestion(HITS, signals=everything)
    assert confidence(whole, request(), models, {**MODELS, "reranker": "r"}) == 0.8808
    assert confidence(whole, request(), models, {**MODELS, "reranker": "other"}) == 0.7311
    assert confidence(cosine, request(), models, {**MODELS, "reranker": "r"}) == 0.5
    assert confidence(cosine, request(), models, {"embedder": "other"}) is None
    assert confidence(FusedQuestion(HITS), request(), models, MODELS) is None


@given(st.floats(-1, 1), st.floats(0, 1), st.integers(1, 1_000), st.floats(0, 1), st.integers(0, 500))
def test_better_signals_and_more_hits_never_lower_it(
    cosine: float, agreement: float, top: int, more: float, hits: int
) -> None:
    def certainty(signals: dict[str, float], top: int) -> float:
        one = FusedQuestion(HITS, signals=signals)
        value = confidence(one, request(top_k=min(top, 1_000)), read_fitted(None), MODELS)
        assert value is not None
        return value

    before = certainty({"cosine": cosine, "agreement": agreement}, top)
    assert 0 <= before <= 1
    assert certainty({"cosine": min(1, cosine + more), "agreement": agreement}, top) >= before
    assert certainty({"cosine": cosine, "agreement": min(1, agreement + more)}, top) >= before
    assert certainty({"cosine": cosine, "agreement": agreement}, top + hits) >= before


def test_the_best_logits_are_signals_and_those_of_the_branches_stay() -> None:
    planned, search = plan(rerank=RERANK), request()
    one = fuse_question(planned, branch_results(vector=[hit("a", score=0.5), hit("b", score=0.4)]), 0, search)
    logits = {"b#0": 1.5, "a#0": -2.0}
    reranked = rerank_question(one, RERANK, Reached(set(logits), logits), search, planned)
    assert reranked.signals == {**one.signals, "rerank": 1.5, "rerank_gap": 3.5}
    assert rerank_question(one, RERANK, Reached(), search, planned).signals == one.signals


def question(
    confidence: float | None, results: dict[str, BranchResult] | None = None, **options: Any
) -> dict[str, Any]:
    search, planned = request(**options), plan()
    results = (
        branch_results(bm25=[hit("a")], vector=[hit("a")], hyde=[hit("a")]) if results is None else results
    )
    pages = Pages({0: fuse_question(planned, results, 0, search)}, confidences={0: confidence})
    answer: dict[str, Any] = answer_fields(BranchAnswers(search, planned, results), pages)
    return {**answer["questions"][0], "warnings": answer["warnings"]}


def test_below_the_threshold_a_question_is_abstained_and_keeps_its_hits() -> None:
    low, high = question(0.4, abstain=0.5), question(0.5, abstain=0.5)
    assert (low["confidence"], low["abstained"], len(low["hits"])) == (0.4, True, 1)
    assert (high["abstained"], len(high["hits"])) == (False, 1)
    assert "abstained" not in question(0.4)
    # An unknown confidence abstains from nothing, and the answer says why.
    unknown = question(None, abstain=0.5)
    assert (unknown["abstained"], "confidence" in unknown) == (False, False)
    assert unknown["warnings"][-1].startswith("abstain: the confidence is not known")
    assert question(None)["warnings"] == low["warnings"]


def test_a_failed_question_and_hits_that_are_not_shown_have_no_confidence() -> None:
    results = branch_results(bm25=[hit("a")])
    assert "confidence" not in question(0.9, results, require=("vector",), abstain=0.5)
    hidden = question(0.9, results, on_missing="empty", abstain=0.5)
    assert (hidden["hits"], "confidence" in hidden, hidden["abstained"]) == ([], False, False)


def test_the_shipped_coefficients_say_how_they_were_fitted_and_how_good_they_are() -> None:
    file = FittedFile.model_validate_json(SHIPPED.read_bytes())
    assert file.how.startswith("examples/confidence/train.py ")
    checks: Any = file.figures[0]["checks"]
    assert len(checks) >= 2
    assert all(check["calibration_error"] < 0.05 for check in checks)
