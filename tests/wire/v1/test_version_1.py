"""Documents of version 1 must stay readable, whatever was added since; the files never change."""

import json
from math import fsum, prod
from pathlib import Path

import pytest
from chorale_client.answer import Answer
from chorale_client.request import Request

HERE = Path(__file__).parent


def test_a_stored_request_still_reads_and_means_the_same() -> None:
    text = (HERE / "request.json").read_text()
    request = Request.model_validate_json(text)
    stored = json.loads(text)
    written = json.loads(request.model_dump_json())
    assert {name: written[name] for name in stored} == stored
    assert request.questions[0].hypothetical_documents == ("The notice period of a lease is three months.",)
    assert (request.timeout_s, request.effective_depth) == (1.5, 50)


def test_a_stored_answer_still_reads_whole_and_means_the_same() -> None:
    text = (HERE / "answer.json").read_text()
    answer = Answer.from_wire(text)
    assert answer.model_dump(mode="json", exclude_unset=True) == json.loads(text)
    assert (answer.status, answer.degraded[0].where, answer.degraded[0].reason) == (
        "degraded",
        "search.hyde",
        "timeout",
    )
    assert [question.status for question in answer.questions] == ["degraded", "skipped"]
    first, second = answer.hits
    assert (first.rank, first.document_id, second.document_id) == (
        1,
        "leases/termination.md",
        "leases/faq.md",
    )
    assert first.snippet is not None
    start, end = first.snippet.highlights[0]
    assert first.snippet.text[start:end] == "lease"
    assert first.folded[0].why == "exact_copy"
    for hit in answer.hits:
        earned = fsum(branch.weight * branch.normalised for branch in hit.branches.values())
        assert hit.score == pytest.approx(earned * prod(hit.boosts.values()), rel=1e-11)
