"""The answers to requests are compared with the answers to their shadows."""

from __future__ import annotations

import pytest

from evaluation.recorded.shadow_comparison import compare_shadows
from records.audit.shadow_pairs import ShadowPair, work_ms
from records.judgements.pooling import JudgedQuestion


def pair(
    number: int,
    a: str,
    b: str,
    *,
    statuses: tuple[str, str] = ("complete", "complete"),
    ms: tuple[float, float] = (10, 20),
    text: str = "",
) -> ShadowPair:
    return ShadowPair(f"r{number}", "docs", text or f"text {number}", statuses, ([*a], [*b]), ms)


def test_hits_and_times_are_compared_where_both_answers_are_complete() -> None:
    pairs = [
        pair(1, "abcd", "abcd", ms=(10, 100)),
        pair(2, "abcd", "bacx", ms=(20, 300)),
        pair(3, "ab", "xy", ms=(30, 200)),
        pair(4, "", "", ms=(40, 400)),
        pair(5, "a", "b", statuses=("complete", "degraded"), ms=(9_000, 9_000)),
        pair(6, "a", "b", statuses=("degraded", "complete"), ms=(9_000, 9_000)),
    ]
    compared = compare_shadows("rrf", "reranked", pairs, {})
    assert (compared.pairs, compared.whole) == (6, 4)
    assert compared.changed_first == 2 / 4
    assert compared.overlap == pytest.approx((1 + 3 / 4 + 0 + 1) / 4)
    assert compared.median_ms == (25, 250)
    # The place .95 x 3 = 2.85: .85 of the way from the third to the fourth.
    assert compared.p95_ms == pytest.approx((38.5, 385))
    assert compared.judged.gain is None
    first, second, third = compared.sentences
    assert first == (
        "6 requests under rrf have a shadow under reranked; of the 4 with two complete answers 50.0% have another first "
        "hit, mean overlap@10 0.69"
    )
    assert second.endswith("A 25 and 38 ms, B 250 and 385 ms")
    assert third == "users saw A only, so clicks decide nothing here"


def test_judged_questions_are_compared_in_pairs_each_text_once() -> None:
    pairs = [pair(2, "ba", "ab", text="same"), pair(1, "ab", "ba", text="same"), pair(3, "a", "b")]
    judged = {("docs", "same"): JudgedQuestion("docs", "same", None, {"a": 3, "b": 0}, nothing_fits=False)}
    compared = compare_shadows("rrf", "reranked", pairs, judged)
    gain = compared.judged.gain
    assert gain is not None
    assert (gain.questions, gain.wins, gain.losses) == (1, 1, 0)
    # The only relevant document is second under A: 1 / log2(3) = .6309.
    assert gain.mean == pytest.approx(1 - 0.6309, abs=1e-4)


def test_without_a_pair_of_complete_answers_nothing_is_compared() -> None:
    compared = compare_shadows("rrf", "reranked", [pair(1, "a", "b", statuses=("complete", "failed"))], {})
    assert compared.sentences == [
        "1 requests under rrf have a shadow under reranked, none with two complete answers"
    ]
    assert compared.to_wire()["median_ms"] == (0.0, 0.0)


def test_time_counts_from_the_slowest_branch_without_the_waiting() -> None:
    stages = [
        {"stage": "plan", "ms": 500},
        {"stage": "embed", "ms": 3},
        {"stage": "search.bm25", "ms": 4, "start_ms": 20_000},
        {"stage": "search.vector", "ms": 9, "start_ms": 30_000},
        {"stage": "fuse", "ms": 1, "start_ms": 30_100},
        {"stage": "rerank", "ms": 50, "start_ms": 30_101},
    ]
    assert work_ms(stages) == 9 + 1 + 50
    assert work_ms([]) == 0
