"""An answer over the limit keeps the order, the ids and the scores of its hits."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from fusion.answer import size_limited


def answer(text: str, *, status: str = "complete") -> dict[str, Any]:
    hits = [
        {"rank": 1, "document_id": "a", "passage_id": "a#0", "score": 0.5, "score_kind": "rrf", "text": text},
        {"rank": 2, "document_id": "b", "passage_id": "b#0", "score": 0.4, "score_kind": "rrf", "text": text},
    ]
    questions = [{"status": status, "hits": hits}, {"status": "skipped", "hits": []}]
    return {"v": 1, "status": status, "degraded": [], "stages": [], "questions": questions}


def test_an_answer_within_the_limit_stays_whole() -> None:
    fields = answer("short")
    size = len(size_limited(fields, 1_000_000)[1])
    assert size_limited(fields, size) == (fields, size_limited(fields, 1_000_000)[1])
    assert size_limited(fields, size - 1)[0] != fields


def test_a_failed_answer_stays_failed() -> None:
    fields, _ = size_limited(answer("x" * 1_000, status="failed"), 100)
    assert (fields["status"], fields["questions"][0]["status"]) == ("failed", "failed")


def test_an_answer_over_the_limit_loses_its_texts_and_says_so() -> None:
    fields, body = size_limited(answer("é" * 600_000), 2_000_000)

    assert fields["status"] == "degraded"
    assert [question["status"] for question in fields["questions"]] == ["degraded", "skipped"]
    assert [(hit["document_id"], hit["score"]) for hit in fields["questions"][0]["hits"]] == [
        ("a", 0.5),
        ("b", 0.4),
    ]
    # Twice 600,000 characters of two bytes, and a little around them.
    (why,) = fields["degraded"]
    assert (why["where"], why["reason"]) == ("fetch", "budget")
    assert "2 hits as asked for have 2.4 MB; an answer may have 2 MB" in why["detail"]
    assert len(body) < 2_000
    assert from_json(body) == fields
