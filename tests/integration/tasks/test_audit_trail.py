"""Every ended request leaves one row, with what is needed to understand it later."""

from __future__ import annotations

from tests.support.faults.observers import audited
from tests.support.ledger.audit_rows import branch_result_of
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
    assert all(branch_result_of(branch).rankings[0].hits for branch in row.branches)
    hits = [hit for question in row.questions for hit in question.hits]
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    assert hits[0].document_id == "error"


def test_the_row_of_an_answer_from_the_cache_says_from_which_corpus_and_models_it_came(
    here: OneProcess,
) -> None:
    first, second = here.ask("bread oven"), here.ask("bread oven")
    here.drain()
    searched, cached = audited(here, first.request_id), audited(here, second.request_id)
    assert (searched.ended_by, cached.ended_by) == ("fusion", "cache")
    assert [question.cached for question in searched.questions] == [False]
    assert [question.cached for question in cached.questions] == [True]
    assert searched.configuration == "rrf"
    for column in ("configuration", "method", "generation", "models"):
        assert getattr(cached, column) == getattr(searched, column) not in (None, {}), column


def test_the_row_of_a_request_that_asked_nothing_names_configuration_and_corpus(here: OneProcess) -> None:
    answer = here.ask(" ", cache="bypass")
    here.drain()
    row = audited(here, answer.request_id)
    assert (row.status, row.ended_by) == ("skipped", "planner")
    assert (row.configuration, row.method) == ("rrf", "rrf")
    assert row.generation is not None
    assert [question.cached for question in row.questions] == [False]
