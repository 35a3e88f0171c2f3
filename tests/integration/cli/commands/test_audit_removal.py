"""`chorale audit prune` and `erase`, as an operator calls them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from audit import queries
from audit.database import open_database
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

    asked = chorale("audit", "erase", "--correlation", "customer-17")
    assert (asked.returncode, "this deletes 1 request: add --yes" in asked.stderr) == (2, True)
    erased = chorale("audit", "erase", "--correlation", "customer-17", "--yes", "--json")
    assert json.loads(erased.stdout)["removed"] == 1
    found = ids(pipeline)
    assert (theirs in found, other in found) == (False, True)

    kept = chorale("audit", "prune", "--older-than", "1d", "--yes")
    assert kept.stdout.strip() == "0 requests older than 1d: deleted from the trail"
    assert other in ids(pipeline)


def test_a_request_is_erased_by_what_the_list_shows_of_its_id(
    pipeline: RunningPipeline, chorale: Run
) -> None:
    client = pipeline.client()
    one, alike, other = "f5334cde-1", "f5334cff-2", "0ther-3"
    for request_id in (one, alike, other):
        client.retrieve("who pays for repairs?", request_id=request_id, timeout_s=20)
    until(lambda: {one, alike, other} <= ids(pipeline))

    several = chorale("audit", "erase", "--request", "f5334c", "--yes")
    assert (several.returncode, several.stdout) == (1, "")
    assert f"several ids begin with 'f5334c': {one}, {alike}" in several.stderr
    erased = chorale("audit", "erase", "--request", "f5334cde", "--yes")
    assert (erased.returncode, " ".join(erased.stdout.split())) == (
        0,
        f"1 request of request {one}: deleted from the trail, 0 from the outbox",
    )
    assert {one, alike, other} & ids(pipeline) == {alike, other}


@pytest.mark.parametrize(
    ("option", "more"),
    [("request", ()), ("correlation", ("--yes",)), ("namespace", ("--yes", "--json"))],
    ids=["request", "correlation", "namespace"],
)
def test_where_nothing_is_to_be_erased_that_is_said(chorale: Run, option: str, more: tuple[str, ...]) -> None:
    called = chorale("audit", "erase", f"--{option}", "nobody-17", *more)
    assert (called.returncode, called.stdout) == (1, "")
    assert called.stderr == f"chorale: nothing in the trail or on its way there is of {option} nobody-17\n"


@pytest.fixture
def paused_sweeper(pipeline: RunningPipeline) -> Iterator[None]:
    """It waits for the outbox when it is paused, so that it has the next entry in hand once it goes on."""
    pipeline.pause("sweeper")
    yield
    pipeline.resume("sweeper")


@pytest.mark.usefixtures("paused_sweeper")
def test_a_request_that_waits_in_the_outbox_is_erased_there(pipeline: RunningPipeline, chorale: Run) -> None:
    client = pipeline.client()
    forgotten = client.retrieve("who pays for repairs?", timeout_s=20).request_id
    other = client.retrieve("when may a tenant leave?", timeout_s=20).request_id

    asked = chorale("audit", "erase", "--request", forgotten)
    assert (asked.returncode, "this deletes 1 request: add --yes" in asked.stderr) == (2, True)
    erased = chorale("audit", "erase", "--request", forgotten, "--yes")
    said = f"0 requests of request {forgotten}: deleted from the trail, 1 from the outbox"
    assert (erased.returncode, " ".join(erased.stdout.split())) == (0, said)

    pipeline.resume("sweeper")
    until(lambda: other in ids(pipeline))
    assert forgotten not in ids(pipeline)


def test_without_redis_the_trail_is_cleared_and_the_outbox_is_reported_as_not_cleared(
    pipeline: RunningPipeline, chorale: Run
) -> None:
    asked = pipeline.client().retrieve("who pays for repairs?", correlation_id="gone", timeout_s=20)
    until(lambda: asked.request_id in ids(pipeline))
    nowhere = {"CHORALE_REDIS_URL": "redis://127.0.0.1:1/0"}
    erased = chorale("audit", "erase", "--correlation", "gone", "--yes", "--json", **nowhere)
    assert erased.returncode == 8
    told = json.loads(erased.stdout)
    assert (told["removed"], told["removed_from_outbox"]) == (1, None)
    assert "the outbox was not reached, and requests that wait in it still enter the trail" in erased.stderr
    assert asked.request_id not in ids(pipeline)
