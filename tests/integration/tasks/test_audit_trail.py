"""Every ended request leaves one row, with what is needed to understand it later."""

from __future__ import annotations

from tests.support.faults.observers import audited
from tests.support.ledger.audit_rows import envelope_of
from tests.support.pipelines.one_process import OneProcess


def test_the_row_says_who_asked_what_how_it_ended_and_what_each_branch_found(here: OneProcess) -> None:
    answer = here.ask("ERR-4711", cache="bypass", correlation_id="order-17", tags={"team": "meters"})
    here.drain()
    row = audited(here, answer.request_id)
    assert (row.status, row.correlation_id, row.tags) == ("complete", "order-17", {"team": "meters"})
    assert [question.text for question in row.questions] == ["ERR-4711"]
    assert row.took_ms > 0
    assert {branch.branch: branch.status for branch in row.branches} == {
        "bm25": "ok",
        "vector": "ok",
        "hyde": "ok",
    }
    assert all(envelope_of(branch).rankings[0].hits for branch in row.branches)
    hits = [hit for question in row.questions for hit in question.hits]
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    assert hits[0].document_id == "error"
