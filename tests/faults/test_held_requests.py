"""A replica is killed or hung with a whole request in its hand: the other one answers, and nothing counts twice."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from chorale_client.keys import DURATIONS
from chorale_client.wire_names import QUEUE_FUSION

from ledger.breakers import FEWEST_DURATIONS
from tests.support.faults.observers import order_by, striking
from tests.support.faults.serving import ALL, serving
from tests.support.pipelines.failpoints import FAULT_PROCESSES, PRELOAD
from tests.support.pipelines.pipeline import RunningPipeline

SERVED = ",".join([*(f"chorale.{branch}" for branch in ALL), QUEUE_FUSION])


@pytest.fixture(scope="module")
def replicas() -> Iterator[RunningPipeline]:
    with serving(["chorale.retrieve"], preload=PRELOAD) as running:
        for replica in ("replica.1", "replica.2"):
            running.start(replica, queue=SERVED)
        running.wait_ready()
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["kill", "hang"])
@pytest.mark.parametrize("moment", ["before", "while", "after"])
def test_a_replica_that_is_gone_with_a_whole_request_in_its_hand_costs_no_hit(
    replicas: RunningPipeline, moment: str, fault: str
) -> None:
    expected = order_by(replicas, ALL)
    for branch in ALL:  # for a lease of two seconds, in which a busy machine also searches
        replicas.redis.rpush(DURATIONS + branch, *[1_000] * FEWEST_DURATIONS)
    time.sleep(1.1)  # a process remembers these figures for a second

    seen = striking(replicas, f"fusion.{moment}_finish", fault, timeout_s=20).result(60)

    assert (seen.status, seen.documents, seen.branches) == ("complete", expected, set(ALL))
    by = replicas.redis.hget(FAULT_PROCESSES, f"fusion.{moment}_finish")
    assert str(by).startswith("b'replica"), "the sweeper ended no request"
    assert {result.attempt for result in seen.audit.branches} == {1}
    replicas.revive()
