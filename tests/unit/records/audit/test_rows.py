"""Turning an ended request into rows."""

from __future__ import annotations

import hmac
import json
import zlib
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from models.branch_result import BranchResult
from models.documents import PassageText
from models.hits import QueryInputs
from models.tables.audit import BranchRow
from records.audit.outbox import Unreadable, parse
from records.audit.rows import Rows, rows_of
from tests.support.ledger.audit_entries import (
    ACCEPTED_AT_MS,
    late,
    make_answer,
    make_branch_result,
    make_entry,
    make_plan,
    make_ranking,
    make_request,
    whole_entry,
)

KEY = b"a secret of the installation"


def rows(entry: dict[str, str], *, keep_texts: bool = True) -> Rows:
    return rows_of(parse(entry), hash_key=None if keep_texts else KEY)


def everything(written: Rows) -> str:
    rankings = [BranchRow(candidates=row["candidates"]).rankings for row in written.branches]
    return f"{written} {rankings}"


def branches_of(*branch_results: BranchResult, **changes: str) -> dict[str, dict[str, Any]]:
    """The rows of a request's branches by name; only these have answered."""
    request = make_request()
    answer = make_answer(request, status="degraded", degraded=[late("vector")])
    entry = make_entry(request, plan=make_plan(request), answer=answer, branch_results=branch_results)
    return {row["branch"]: row for row in rows({**entry, **changes}).branches}


def test_the_request_row_has_the_requested_options_and_the_resolved_plan() -> None:
    options = {"namespace": "docs", "top_k": 3, "correlation_id": "c-1", "tags": {"team": "search"}}
    request = make_request(**options)
    row = rows(whole_entry(request, by="cache")).request
    ended = {"accepted_at_ms": ACCEPTED_AT_MS, "ended_at_ms": ACCEPTED_AT_MS + 31, "took_ms": 31}
    planned = {"configuration": "rrf", "method": "rrf", "generation": 7, "now": "2026-11-01T12:00:00+00:00"}
    answered = {"status": "complete", "degraded": [], "warnings": [], "models": {"embedder": "minilm-fp32"}}
    expected = {
        "request_id": request.request_id,
        "ended_by": "cache",
        **options,
        **ended,
        **planned,
        **answered,
    }
    assert {name: row[name] for name in expected} == expected
    assert row["stages"] == [{"stage": "fuse", "status": "ok", "ms": 0.4}]
    assert row["options"]["timeout_s"] == 2.0
    assert "questions" not in row["options"]


def test_each_question_and_each_hit_is_a_row_and_a_hit_has_no_text() -> None:
    request = make_request("first", "second")
    answer = make_answer(request)
    answer["questions"][1]["status"] = "degraded"
    written = rows(whole_entry(request, answer=answer))
    first, second = written.questions
    assert (first["position"], first["text"], first["status"]) == (0, "first", "complete")
    assert (second["position"], second["text"], second["status"]) == (1, "second", "degraded")
    assert second["text_hash"] == sha256(b"second").hexdigest()
    hit, _ = written.hits
    assert (hit["question"], hit["rank"], hit["score"]) == (0, 1, 1 / 61)
    assert (hit["document_id"], hit["passage_id"]) == ("docs:guide.md", "docs:guide.md#0")
    assert (hit["found_by"], hit["explanation"]) == (
        ["bm25"],
        {"branches": {"bm25": {"rank": 1, "score": 9.5}}},
    )


def test_a_request_without_its_ledger_entry_is_still_a_row() -> None:
    answer = {"status": "failed", "degraded": [{"where": "plan", "reason": "not_started"}]}
    written = rows({**make_entry(make_request(), by="client", answer=answer), "request": ""})
    assert (written.request["status"], written.request["took_ms"], written.request["plan"]) == (
        "failed",
        31,
        None,
    )
    assert (written.questions, written.branches, written.hits) == ([], [], [])


def test_without_texts_no_word_of_a_question_is_in_any_row() -> None:
    questions, others = ["xylophone", "zeppelin", "dirigible", "quixotic"], ["lovelace", "babbage", "divorce"]
    rewritten = {"text": "zeppelin", "bm25_query": "dirigible", "hypothetical_document": "a quixotic airship"}
    filters = {"customer": "lovelace", "name": {"not": "babbage"}}
    request = make_request("xylophone", rewritten, filters=filters, tags={"case": "divorce"})
    warning = "filter 'plaintiff': no document has this field, so nothing matches"
    source_warning = "source: wiki: filter 'defendant': pinecone cannot express the whole condition"
    branch_result = make_branch_result("bm25", replace(make_ranking("a"), warnings=(warning, source_warning)))
    answer = make_answer(request, warnings=[warning, source_warning, "cache: unavailable"])
    entry = make_entry(request, plan=make_plan(request), answer=answer, branch_results=(branch_result,))
    whole, hashed = (everything(rows(entry, keep_texts=keep)) for keep in (True, False))
    assert "cache: unavailable" in hashed
    for word in (*questions, *others, "plaintiff", "defendant"):
        assert word in whole
        assert word not in hashed
    hashes = [row["text_hash"] for row in rows(entry, keep_texts=False).questions]
    assert hashes == [hmac.digest(KEY, text, "sha256").hex() for text in (b"xylophone", b"zeppelin")]


def test_a_question_cannot_be_guessed_from_its_hash() -> None:
    """Whoever reads the tables hashes what people may have asked; the key is not in the tables."""
    guesses = ["how do I file for divorce?", "am I pregnant?", "who is leaving?"]
    entry = whole_entry(make_request("am I pregnant?"))
    (row,) = rows(entry, keep_texts=False).questions
    attempts = {sha256(guess.encode()).hexdigest() for guess in guesses}
    attempts |= {hmac.digest(b"", guess.encode(), "sha256").hex() for guess in guesses}
    assert row["text_hash"] not in attempts
    (again,) = rows(whole_entry(make_request("am I pregnant?")), keep_texts=False).questions
    assert again["text_hash"] == row["text_hash"]


def test_candidates_come_back_hit_for_hit_and_bit_for_bit() -> None:
    rankings = make_ranking("a", "b", "c", top_score=0.1 + 0.2), make_ranking("d")
    row = branches_of(make_branch_result("vector", *rankings))["vector"]
    assert BranchRow(candidates=row["candidates"]).rankings == rankings


@pytest.mark.parametrize(
    "brought",
    [
        {"texts": {"a#0": PassageText("a#0", "a", "Xylophones", "", "zeppelin", {})}},
        {"query_inputs": QueryInputs({"xylophone": 1.0})},
        {"query_inputs": QueryInputs(vectors=(b"zeppelin",))},
    ],
)
def test_texts_that_came_with_their_hits_are_not_kept(brought: dict[str, Any]) -> None:
    """Neither is what a branch searched with: the question's text, or its vector, from which a text can be guessed."""
    ranking = make_ranking("a")
    row = branches_of(make_branch_result("vector", replace(ranking, **brought)))["vector"]
    assert BranchRow(candidates=row["candidates"]).rankings == (ranking,)


def test_filters_that_could_be_dropped_are_not_named_where_filters_are_not_kept() -> None:
    request = make_request(
        filters={"shop": "north"},
        thresholds={"min_fused_score": 0.5},
        relax=["filters.shop", "thresholds.min_fused_score"],
    )
    entry = whole_entry(request)
    assert rows(entry).request["options"]["relax"] == list(request.relax)
    assert rows(entry, keep_texts=False).request["options"]["relax"] == ["thresholds.min_fused_score"]


def test_a_branch_row_joins_the_result_with_the_plan_and_a_missing_one_has_the_answers_reason() -> None:
    branches = branches_of(make_branch_result("bm25", make_ranking("a")))
    expected: dict[str, dict[str, Any]] = {
        "bm25": {"status": "ok", "reason": None, "ms": 12.5, "attempt": 1, "generation": 7, "weight": 0.3},
        "vector": {"status": "failed", "reason": "not_started", "candidates": None, "weight": 0.4},
        "hyde": {"status": "failed", "reason": None, "depth": 200},
    }
    assert {name: {key: row[key] for key in expected[name]} for name, row in branches.items()} == expected
    assert branches["vector"]["detail"] == "nobody took it"


def test_a_branch_that_failed_or_whose_candidates_were_left_out_has_its_outcome_and_no_candidates() -> None:
    failed = branches_of(make_branch_result("bm25").failed("bm25", "unavailable", "refused", attempt=2))[
        "bm25"
    ]
    assert (failed["status"], failed["reason"], failed["detail"]) == ("failed", "unavailable", "refused")
    assert (failed["attempt"], failed["candidates"]) == (2, None)
    no_candidates = '{"v":1,"branch":"bm25","status":"ok","rankings":[],"left_out":true}'
    row = branches_of(**{"result:bm25": no_candidates})["bm25"]
    assert (row["status"], row["reason"], row["candidates"], row["weight"]) == ("ok", None, None, 0.3)


def test_completed_scores_stand_with_the_rankings_that_they_complete() -> None:
    request = make_request("one", "two")
    scores = [{"bm25": {"a#0": 1 / 3}, "vector": {"b#0": 0.25, "c#0": 0.5}}, {}]
    written = rows({**whole_entry(request), "completed": json.dumps(scores)})
    assert {row["branch"]: BranchRow(candidates=row["candidates"]).completed for row in written.branches} == {
        "bm25": [{"a#0": 1 / 3}, {}],
        "vector": [{"b#0": 0.25, "c#0": 0.5}, {}],
        "hyde": [{}, {}],
    }
    plain = rows(whole_entry(request)).branches[0]
    assert BranchRow(candidates=plain["candidates"]).completed is None
    assert b"completed" not in zlib.decompress(plain["candidates"])


def test_cached_questions_are_marked_and_no_branch_is_expected() -> None:
    request = make_request("known", "asked")
    plan = make_plan(request, searched=(1,), cached={0: {"hits": []}})
    written = rows(make_entry(request, plan=plan))
    assert [row["cached"] for row in written.questions] == [True, False]
    assert len(written.branches) == 3
    assert "cached" not in written.request["plan"]
    everything_known = make_plan(request, searched=(), cached={0: {}, 1: {}})
    assert rows(make_entry(request, plan=everything_known, by="cache")).branches == []


def test_the_character_nul_is_replaced_because_postgresql_cannot_store_it() -> None:
    written = rows(whole_entry(make_request("a\0b", correlation_id="c\0", configuration="r\0")))
    assert written.questions[0]["text"] == "a\ufffdb"
    assert written.request["correlation_id"] == "c\ufffd"


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("request", ['{"questions": 7}', '{"questions": [7]}', '{"questions": [{"texts": "x"}]}']),
        ("answer", ["{}", '{"status": "complete", "questions": [{"hits": [{"rank": 1}]}]}']),
        ("completed", ["{", "5", "[5]", '{"bm25": {}}']),
    ],
)
def test_an_entry_with_a_field_of_another_shape_is_unreadable(field: str, values: list[str]) -> None:
    for value in values:
        with pytest.raises(Unreadable):
            rows({**whole_entry(), field: value})
