"""Every ended request leaves one row, with what is needed to understand it later."""

from __future__ import annotations

import time

import pytest

from audit.database import open_database
from audit.queries import show
from models.audit_tables import RequestRow
from tests.support.ledger.audit_rows import envelope_of
from tests.support.pipelines.pipeline import RunningPipeline


@pytest.fixture
def audited(pipeline: RunningPipeline) -> RequestRow:
    client = pipeline.client()
    answer = client.retrieve("ERR-4711", cache="bypass", correlation_id="order-17", tags={"team": "meters"})
    engine = open_database(pipeline.resources.settings.audit_database_url)
    until = time.monotonic() + 10
    while (found := show(engine, answer.request_id)) is None:
        assert time.monotonic() < until, "no row was written"
        time.sleep(0.05)
    engine.dispose()
    return found


def test_the_row_says_who_asked_what_and_how_it_ended(audited: RequestRow) -> None:
    assert (audited.status, audited.correlation_id, audited.tags) == (
        "complete",
        "order-17",
        {"team": "meters"},
    )
    assert [question.text for question in audited.questions] == ["ERR-4711"]
    assert audited.took_ms > 0


def test_the_audit_row_holds_each_branch_with_its_candidates(audited: RequestRow) -> None:
    assert {branch.branch for branch in audited.branches} == {"bm25", "vector", "hyde"}
    for branch in audited.branches:
        assert branch.status == "ok"
        assert envelope_of(branch).rankings[0].hits


def test_the_audit_row_holds_the_hits_with_their_ranks(audited: RequestRow) -> None:
    hits = [hit for question in audited.questions for hit in question.hits]
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    assert hits[0].document_id == "error"
