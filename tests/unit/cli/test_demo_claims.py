"""An answer that does not show what the demo's screen claims is found out."""

from __future__ import annotations

from io import StringIO
from types import SimpleNamespace
from typing import Any, cast

import pytest
from chorale_client import Answer
from rich.console import Console

from cli.demo.installation import DemoInstallation
from cli.demo.questions import QUESTIONS, Shows
from cli.demo.screens import Screens

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


def screens(*answers: Answer) -> Screens:
    """Screens that get these answers, one after another."""
    waiting = iter(answers)
    branches = [SimpleNamespace(name=name) for name in ("bm25", "vector")]
    installation = SimpleNamespace(
        client=SimpleNamespace(retrieve=lambda text, **options: next(waiting)),
        namespace="python",
        resources=SimpleNamespace(pipeline=SimpleNamespace(branches=branches)),
        supervisor=SimpleNamespace(pause=lambda name: None, resume=lambda name: None),
    )
    return Screens(Console(file=StringIO()), cast("DemoInstallation", installation))


def broken_question(shows: Shows, *answers: Answer) -> list[str]:
    shown = screens(*answers)
    shown.question(BY_SHOWS[shows])
    return shown.broken


def test_a_question_needs_a_complete_answer() -> None:
    right = hit("python/heapq.nlargest", bm25=1)
    assert broken_question(Shows.ONLY_BM25, answer(right)) == []
    assert broken_question(Shows.ONLY_BM25, answer(right, **MISSING)) == ["screen 1: the answer is degraded"]


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
    expected = str(BY_SHOWS[shows].expected)
    assert broken_question(shows, answer(hit(expected, **kept))) == []
    assert "in BM25" in broken_question(shows, answer(hit(expected, **broken)))[0]
    first, *_ = broken_question(shows, answer(hit("python/other", **kept), hit(expected, **kept)))
    assert first == f"screen 1: {expected} is not the first of ['python/other', '{expected}']"


@pytest.mark.parametrize(
    ("cosine", "bm25", "broken"),
    [
        (0.15, 0, []),
        (0.25, 0, ["screen 1: something answers"]),
        (0.15, 1, ["screen 1: something answers"]),
    ],
)
def test_the_claim_that_nothing_answers_needs_low_scores_and_no_lexical_hit(
    cosine: float, bm25: int, broken: list[str]
) -> None:
    far = answer(hit("a", vector=1, cosine=cosine), bm25=bm25)
    assert broken_question(Shows.NOTHING, far) == broken


def test_a_filter_must_hold_for_every_hit_and_change_the_first_one() -> None:
    inside = hit("python/subprocess.Popen.wait", parent="subprocess", bm25=1)
    outside = hit("python/threading.Event.wait", parent="threading")
    assert broken_question(Shows.FILTER, answer(inside), answer(outside)) == []
    assert len(broken_question(Shows.FILTER, answer(inside, outside), answer(outside))) == 1
    assert broken_question(Shows.FILTER, answer(inside), answer(inside)) == [
        "screen 1: the filter changes nothing"
    ]


@pytest.mark.parametrize(
    ("hits", "fields", "complaint"),
    [
        (1, MISSING, None),
        (0, MISSING, "has 0 hits"),
        (1, OK, "misses []"),
        (1, {**MISSING, "degraded": [{**NOT_STARTED, "reason": "timeout"}]}, "timeout"),
        (1, {**MISSING, "degraded": [NOT_STARTED, {**NOT_STARTED, "where": "search.hyde"}]}, "search.hyde"),
        (1, {**MISSING, "took_ms": 2_001}, "after 2001 ms"),
    ],
)
def test_the_degraded_answer_must_be_in_time_and_miss_only_the_stopped_branch(
    hits: int, fields: dict[str, Any], complaint: str | None
) -> None:
    shown = screens(answer(*[hit("a")] * hits, **fields))
    shown.degraded()
    assert (complaint in shown.broken[0]) if complaint else shown.broken == []


@pytest.mark.parametrize(
    ("fields", "is_broken"),
    [({}, False), ({"cached": True}, True), ({"vector": 0}, True), (MISSING, True)],
)
def test_the_answer_after_the_pause_must_be_complete_and_not_cached(
    fields: dict[str, Any], is_broken: bool
) -> None:
    shown = screens(answer(hit("a"), **fields))
    shown.resumed()
    assert bool(shown.broken) == is_broken


@pytest.mark.parametrize(
    ("ids", "is_cached", "is_broken"), [("ab", True, False), ("ab", False, True), ("ba", True, True)]
)
def test_the_cached_answer_must_have_the_same_hits(ids: str, is_cached: bool, is_broken: bool) -> None:
    shown = screens(answer(*map(hit, ids), cached=is_cached))
    shown.cached(answer(hit("a"), hit("b")))
    assert bool(shown.broken) == is_broken
