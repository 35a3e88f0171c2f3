"""`chorale cancel`: what it prints, and what its exit code says."""

from __future__ import annotations

import json

from chorale_client import make_request
from chorale_client.ledger import CallersLedger
from redis import Redis

from tests.support.command_line import Run
from tests.support.ledger.requests import TAIL
from tests.support.ledger.single_steps import SingleSteps
from tests.support.servers.redis_server import RedisServer


def test_a_request_is_cancelled_and_says_so(
    alone: Run, redis_server: RedisServer, redis_client: Redis
) -> None:
    CallersLedger(redis_client).accept(make_request("bread", request_id="nightly-17"))
    said = alone("cancel", "nightly-17", CHORALE_REDIS_URL=redis_server.url)
    assert (said.returncode, said.stderr) == (6, "")
    assert said.stdout.startswith("nightly-17: cancelled, ")
    again = alone("cancel", "nightly-17", "--json", CHORALE_REDIS_URL=redis_server.url)
    answer = json.loads(again.stdout)
    assert (again.returncode, answer["status"], answer["request_id"]) == (6, "cancelled", "nightly-17")


def test_what_had_ended_is_left_as_it_is(alone: Run, redis_server: RedisServer, redis_client: Redis) -> None:
    CallersLedger(redis_client).accept(make_request("bread", request_id="nightly-17"))
    SingleSteps(redis_client).finish("nightly-17", by="fusion", tail=TAIL, is_complete=True)
    said = alone("cancel", "nightly-17", CHORALE_REDIS_URL=redis_server.url)
    assert (said.returncode, said.stdout) == (0, "nightly-17: had ended before as complete\n")


def test_an_unknown_id_is_reported_as_unknown(
    alone: Run, redis_server: RedisServer, redis_client: Redis
) -> None:
    said = alone("cancel", "never-sent", CHORALE_REDIS_URL=redis_server.url)
    assert (said.returncode, said.stdout) == (1, "")
    assert said.stderr.startswith("chorale: nothing is known of 'never-sent'")
