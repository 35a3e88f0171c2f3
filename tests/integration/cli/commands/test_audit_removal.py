"""`chorale audit prune` and `erase`, as an operator calls them."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.faults.waiting import until
from tests.integration.cli.commands.conftest import Called
from tests.pipeline import RunningPipeline

Run = Callable[..., Called]


def ids(chorale: Run) -> set[str]:
    listed = json.loads(chorale("audit", "last", "10000", "--json").stdout)["requests"]
    return {one["request_id"] for one in listed}


def test_what_a_customer_asked_is_erased_once_it_is_confirmed(
    pipeline: RunningPipeline, chorale: Run
) -> None:
    client = pipeline.client()
    theirs = client.retrieve("who pays for repairs?", correlation_id="customer-17", timeout_s=10).request_id
    other = client.retrieve("when may a tenant leave?", timeout_s=10).request_id
    until(lambda: {theirs, other} <= ids(chorale))

    asked = chorale("audit", "erase", "--correlation", "customer-17")
    assert (asked.returncode, "this deletes 1 request: add --yes" in asked.stderr) == (2, True)
    erased = chorale("audit", "erase", "--correlation", "customer-17", "--yes", "--json")
    assert json.loads(erased.stdout)["removed"] == 1
    found = ids(chorale)
    assert (theirs in found, other in found) == (False, True)

    kept = chorale("audit", "prune", "--older-than", "1d", "--yes")
    assert kept.stdout.strip() == "0 requests older than 1d: deleted from the trail"
    assert other in ids(chorale)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("prune", "--older-than", "soon"),
            "'soon' is no time: a whole number and one of m (60 s), h (3,600 s), d",
        ),
        (("erase",), "give one of --request, --correlation, --namespace"),
        (
            ("erase", "--request", "a", "--namespace", "b"),
            "give one of --request, --correlation, --namespace",
        ),
    ],
)
def test_what_says_not_what_to_delete_deletes_nothing(
    alone: Run, arguments: tuple[str, ...], said: str
) -> None:
    called = alone("audit", *arguments, "--yes")
    assert called.returncode == 2
    assert said in " ".join(called.stderr.replace("│", " ").split())
