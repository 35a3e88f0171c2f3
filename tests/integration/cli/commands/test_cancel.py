"""`chorale cancel`: what it prints, and what its exit code says."""

from __future__ import annotations

from chorale_client import make_request
from chorale_client.ledger import CallersLedger
from redis import Redis

from tests.integration.cli.commands.printed import complaint, document, output
from tests.support.command_line import Called, Run
from tests.support.ledger.requests import BODY
from tests.support.ledger.single_steps import SingleSteps
from tests.support.servers.redis_server import RedisServer


def test_a_request_is_cancelled_and_what_had_ended_is_left_as_it_is(
    alone: Run, redis_server: RedisServer, redis_client: Redis
) -> None:
    def cancel(*arguments: str) -> Called:
        return alone("cancel", *arguments, CHORALE_REDIS_URL=redis_server.url)

    for request_id in ("nightly-17", "nightly-18"):
        CallersLedger(redis_client).accept(make_request("bread", request_id=request_id))
    assert output(cancel("nightly-17"), 6).startswith("nightly-17: cancelled, ")
    again = document(cancel("nightly-17", "--json"), 6)
    assert (again["status"], again["request_id"]) == ("cancelled", "nightly-17")

    SingleSteps(redis_client).finish("nightly-18", by="fusion", body=BODY, is_complete=True)
    assert output(cancel("nightly-18")) == "nightly-18: had ended before as complete"
    assert complaint(cancel("never-sent")).startswith("chorale: 'never-sent' not found")
