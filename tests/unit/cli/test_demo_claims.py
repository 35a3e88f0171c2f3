"""An answer that does not show what the demo's screen claims is found out."""

from __future__ import annotations

from typing import Any

import pytest
from chorale_client import Answer

from cli.demo.claims import (
    best_cosine,
    broken_cached,
    broken_degraded,
    broken_question,
    broken_resumed,
    broken_whole,
    found_by,
    ranks_of,
)
from cli.demo.questions import QUESTIONS, Shows

BY_SHOWS = {question.shows: question for question in QUESTIONS}
NOT_STARTED = {"where": "search.vector", "reason": "not_started"}
OK: dict[str, Any] = {"status": "complete"}
MISSING: dict[str, Any] = {"status": "degraded", "degraded": [NOT_STARTED], "took_ms": 1_850}


def hit(
    document_id: str, *, parent: str = "heapq", cosine: float | None = None, **ranks: int
) -> dict[str, Any]:
    """Without `cosine` it is .9 at rank 1, .8 at rank 2, and so on."""
    place = {"normalised": 0.1, "weight": 0.4, "contribution": 0.04, "passage_id": f"{document_id}#0"}
    scores = {name: 1 - rank / 10 if cosine is None else cosine for name, rank in ranks.items()}
    return {
        "rank": 1,
        "document_id": document_id,
        "passage_id": f"{document_id}#0",
        "score": 0.1,
        "metadata": {"parent": parent},
        "found_by": list(ranks),
        "branches": {name: {"rank": rank, "score": scores[name], **place} for name, rank in ranks.items()},
    }


def answer(*hits: dict[str, Any], bm25: int = 3, vector: int = 100, **fields: Any) -> Answer:
    stages = [{"stage": "search.bm25", "n_out": bm25}, {"stage": "search.vector", "n_out": vector}]
    question = {"status": "complete", "hits": list(hits)}
    return Answer.from_wire({"request_id": "r", "stages": stages, "questions": [question], **OK, **fields})


def test_ranks_cosines_and_hit_counts_are_read_from_the_answer() -> None:
    found = answer(hit("a", vector=2), hit("b", bm25=1, vector=7), bm25=0)
    assert ranks_of("b", found) == {"bm25": 1, "vector": 7}
    assert ranks_of("c", found) == {}
    assert ranks_of(None, found) == {}
    assert best_cosine(found) == pytest.approx(0.8)
    assert best_cosine(answer()) == 0
    assert (found_by("bm25", found), found_by("vector", found), found_by("other", found)) == (0, 100, 0)


def test_a_question_needs_the_expected_hit_and_a_complete_answer() -> None:
    question, right = BY_SHOWS[Shows.ONLY_BM25], hit("python/heapq.nlargest", bm25=1)
    degraded = "the answer is degraded: search.vector not_started"
    assert broken_question(question, answer(right, **MISSING)) == degraded
    assert broken_question(question, answer()) == "the first hit is None, not python/heapq.nlargest"


@pytest.mark.parametrize(
    ("shows", "kept", "broken"),
    [
        (Shows.ONLY_BM25, {"bm25": 1, "vector": 38}, {"bm25": 1, "vector": 10}),
        (Shows.ONLY_BM25, {"bm25": 1}, {"bm25": 2}),
        (Shows.ONLY_VECTORS, {"vector": 1}, {"bm25": 3, "vector": 1}),
        (Shows.ONLY_VECTORS, {"bm25": 11, "vector": 1}, {"vector": 2}),
        (Shows.FUSION, {"bm25": 2, "vector": 2}, {"bm25": 1, "vector": 2}),
        (Shows.FUSION, {"bm25": 4, "vector": 3}, {"bm25": 2, "vector": 1}),
    ],
)
def test_the_ranks_of_the_branches_must_show_what_the_question_claims(
    shows: Shows, kept: dict[str, Any], broken: dict[str, Any]
) -> None:
    question = BY_SHOWS[shows]
    expected = str(question.expected)
    assert broken_question(question, answer(hit(expected, **kept))) is None
    assert expected in str(broken_question(question, answer(hit(expected, **broken))))
    assert broken_question(question, answer(hit("python/other"), hit(expected, **kept))) == (
        f"the first hit is python/other, not {expected}"
    )


@pytest.mark.parametrize(
    ("cosine", "bm25", "complaint"),
    [
        (0.15, 0, None),
        (0.25, 0, "something answers: lexical hits False, best cosine 0.25"),
        (0.15, 1, "something answers: lexical hits True, best cosine 0.15"),
    ],
)
def test_the_claim_that_nothing_answers_needs_low_scores_and_no_lexical_hit(
    cosine: float, bm25: int, complaint: str | None
) -> None:
    found = answer(hit("a", vector=1, cosine=cosine), bm25=bm25)
    assert broken_question(BY_SHOWS[Shows.NOTHING], found) == complaint


def test_a_filter_must_hold_for_every_hit() -> None:
    question = BY_SHOWS[Shows.FILTER]
    inside = hit("python/subprocess.Popen.wait", parent="subprocess", bm25=1)
    assert broken_question(question, answer(inside)) is None
    outside = hit("python/threading.Event.wait", parent="threading")
    complaint = "python/threading.Event.wait does not meet the filter"
    assert broken_question(question, answer(inside, outside)) == complaint


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        (MISSING, None),
        (OK, "the answer is complete and misses []"),
        ({**MISSING, "degraded": [{**NOT_STARTED, "reason": "timeout"}]}, "'timeout'"),
        ({**MISSING, "degraded": [NOT_STARTED, {**NOT_STARTED, "where": "search.hyde"}]}, "search.hyde"),
        ({**MISSING, "took_ms": 2_001}, "it took 2001 ms of 2000"),
    ],
)
def test_the_degraded_answer_must_be_in_time_and_miss_only_the_stopped_branch(
    fields: dict[str, Any], complaint: str | None
) -> None:
    broken = broken_degraded(answer(hit("a"), **fields), timeout_s=2)
    assert complaint in broken if complaint and broken else broken is complaint
    assert broken_degraded(answer(**MISSING), timeout_s=2) == "the other branches found nothing"


def test_the_answer_after_the_pause_must_be_complete_and_not_cached() -> None:
    assert broken_resumed(answer(hit("a"))) is None
    assert broken_resumed(answer(hit("a"), cached=True)) == "the degraded answer was kept in the cache"
    assert broken_resumed(answer(hit("a"), vector=0)) == "the branch that was held still found nothing"
    assert broken_resumed(answer(hit("a"), **MISSING)) == broken_whole(answer(**MISSING)) is not None


def test_the_cached_answer_must_have_the_same_hits() -> None:
    before = answer(hit("a"), hit("b"))
    assert broken_cached(answer(hit("a"), hit("b"), cached=True), before) is None
    assert broken_cached(answer(hit("a"), hit("b")), before) == "the answer was not in the cache"
    assert broken_cached(answer(hit("b"), hit("a"), cached=True), before) == "the cache holds other hits"
    assert broken_cached(answer(hit("a"), hit("b"), cached=True, **MISSING), before) is not None
