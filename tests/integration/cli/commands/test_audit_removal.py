"""`chorale audit prune` and `erase`, as an operator calls them."""

from __future__ import annotations

from audit import queries
from audit.database import open_database
from tests.integration.cli.commands.printed import complaint, document, shown
from tests.support.command_line import Run
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.waiting import until


def ids(pipeline: RunningPipeline) -> set[str]:
    """The request ids of the whole trail."""
    engine = open_database(pipeline.resources.settings.audit_database_url)
    try:
        return {line.request_id for line in queries.last(engine, 10_000)}
    finally:
        engine.dispose()


def test_what_a_customer_asked_is_erased_once_it_is_confirmed(
    pipeline: RunningPipeline, chorale: Run
) -> None:
    client = pipeline.client()
    theirs = client.retrieve("who pays for repairs?", correlation_id="customer-17", timeout_s=20).request_id
    other = client.retrieve("when may a tenant leave?", timeout_s=20).request_id
    until(lambda: {theirs, other} <= ids(pipeline))

    erase = ("audit", "erase", "--correlation", "customer-17")
    assert "this deletes 1 request: add --yes" in complaint(chorale(*erase), 2)
    assert document(chorale(*erase, "--yes", "--json"))["removed"] == 1
    assert {theirs, other} & ids(pipeline) == {other}

    kept = shown(chorale("audit", "prune", "--older-than", "1d", "--yes"))
    assert kept == "0 requests older than 1d: deleted from the trail"
    assert other in ids(pipeline)


def test_a_request_is_erased_by_what_the_list_shows_of_its_id(
    pipeline: RunningPipeline, chorale: Run
) -> None:
    first, alike, other = "f5334cde-1", "f5334cff-2", "0ther-3"
    for request_id in (first, alike, other):
        pipeline.client().retrieve("who pays for repairs?", request_id=request_id, timeout_s=20)
    until(lambda: {first, alike, other} <= ids(pipeline))

    erase = ("audit", "erase", "--yes", "--request")
    assert f"several ids begin with 'f5334c': {first}, {alike}" in complaint(chorale(*erase, "f5334c"))
    erased = f"1 request of request {first}: deleted from the trail, 0 from the outbox"
    assert shown(chorale(*erase, "f5334cde")) == erased
    assert {first, alike, other} & ids(pipeline) == {alike, other}


def test_where_nothing_is_to_be_erased_that_is_said(chorale: Run) -> None:
    for option, more in (("request", ()), ("correlation", ("--yes",)), ("namespace", ("--yes", "--json"))):
        sentence = complaint(chorale("audit", "erase", f"--{option}", "nobody-17", *more))
        assert sentence == f"chorale: nothing in the trail or on its way there is of {option} nobody-17\n"


def test_without_redis_the_trail_is_cleared_and_the_outbox_is_reported_as_not_cleared(
    pipeline: RunningPipeline, chorale: Run
) -> None:
    answer = pipeline.client().retrieve("who pays for repairs?", correlation_id="gone", timeout_s=20)
    until(lambda: answer.request_id in ids(pipeline))
    nowhere = {"CHORALE_REDIS_URL": "redis://127.0.0.1:1/0"}
    called = chorale("audit", "erase", "--correlation", "gone", "--yes", "--json", **nowhere)
    erased = document(called, 8)
    assert (erased["removed"], erased["removed_from_outbox"]) == (1, None)
    assert "the outbox was not reached, and requests that wait in it still enter the trail" in called.stderr
    assert answer.request_id not in ids(pipeline)
