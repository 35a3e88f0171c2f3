"""The coverage of an answer: what answered, what is missing and why; and an answer as documents."""

from __future__ import annotations

import json
from typing import Any

import pytest
from chorale_client import Answer
from chorale_client.adapters import needs
from chorale_client.adapters.connection import Connection, retrieved
from chorale_client.coverage import coverage_of


def answer(**fields: Any) -> Answer:
    return Answer.from_wire({"request_id": "one", "status": "complete", **fields})


def stage(name: str, status: str = "ok", **fields: Any) -> dict[str, Any]:
    return {"stage": name, "status": status, **fields}


def missing(where: str, reason: str) -> dict[str, str]:
    return {"where": where, "reason": reason, "detail": ""}


def test_each_branch_is_ok_or_empty_or_has_the_reason_why_it_is_missing() -> None:
    lacks = [missing("search.slow", "timeout"), missing("search.broken", "unavailable")]
    stages = [
        stage("embed", detail="vector"),
        stage("search.bm25", n_out=3),
        stage("search.vector", n_out=0),
        stage("search.hyde", "skipped", detail="rule"),
        stage("search.slow", "failed", detail="timeout"),
        stage("search.broken", "failed"),
        stage("search.partial", "partial", n_out=1),
    ]
    covered = coverage_of(answer(status="degraded", stages=stages, degraded=lacks, warnings=["w"]))
    lexical = {"bm25": "ok", "partial": "ok", "slow": "timeout", "broken": "unavailable"}
    assert covered["branches"] == {**lexical, "vector": "empty", "hyde": "rule"}
    assert covered["missing"] == lacks
    assert json.loads(json.dumps(covered)) == covered


def test_an_answer_without_stages_names_what_is_missing_and_when_to_ask_again() -> None:
    ended = answer(
        status="failed", degraded=[missing("search.bm25", "not_started"), missing("fuse", "timeout")]
    )
    covered = coverage_of(ended)
    assert covered["branches"] == {"bm25": "not_started"}
    assert [part["where"] for part in covered["missing"]] == ["search.bm25", "fuse"]
    questions = [{"status": "complete", "confidence": 0.2, "abstained": True}, {"status": "complete"}]
    assert coverage_of(answer(questions=questions))["abstained"] == [True, False]
    refused = answer(status="refused", retry_after_s=2.5, degraded=[missing("plan", "overload")])
    assert coverage_of(refused)["retry_after_s"] == 2.5
    assert retrieved(refused).documents == ()


HIT = {"rank": 1, "document_id": "a", "passage_id": "a#0", "score": 0.5, "score_kind": "rrf"}


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"text": "whole", "snippet": {"text": "part"}, "title": "T"}, "whole"),
        ({"snippet": {"text": "part"}, "title": "T"}, "part"),
        ({"title": "T"}, "T"),
        ({}, "a"),
    ],
)
def test_a_document_has_the_best_text_that_there_is(more: dict[str, Any], text: str) -> None:
    (document,) = retrieved(answer(questions=[{"status": "complete", "hits": [{**HIT, **more}]}])).documents
    assert document.text == text


def test_the_fields_of_a_hit_are_metadata_and_win_over_the_document_s_own() -> None:
    own = {"year": 2020, "score": "high"}
    hit = {**HIT, "url": "https://example.org/a", "found_by": ["bm25"], "metadata": own}
    (document,) = retrieved(answer(questions=[{"status": "complete", "hits": [hit]}])).documents
    fields = {**HIT, "url": "https://example.org/a", "found_by": ["bm25"]}
    assert document.metadata == {"year": 2020, "title": "a", **fields}


def test_options_have_texts_unless_they_choose_their_own_include() -> None:
    connection = Connection(options={"top_k": 3})
    with_default = connection.request("a question", None, {"top_k": 4})
    assert (with_default.top_k, with_default.include) == (4, ("ids", "metadata", "texts"))
    assert connection.request("a question", {"include": ("ids",)}).include == ("ids",)


def test_the_error_of_a_missing_extra_names_the_package() -> None:
    says = r"needs not_there: install the client with its extra, pip install -e './client\[x\]'"
    with pytest.raises(ImportError, match=says) as raised, needs("x"):
        import not_there  # type: ignore[import-not-found] # noqa: F401
    assert raised.value.name == "not_there"
