"""Three hosts that share Redis and PostgreSQL alone, while the network, a clock, a host and Redis fail.

Every caller has an answer or a named error by its deadline.  The caller is a process on host c.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.machines.caller import ANSWERS, Caller
from tests.machines.cluster import ALL, LIMIT_S, Cluster
from tests.machines.hosts import Hosts
from tests.support.waiting import until

REQUESTS = 200
PER_SECOND = 3
PATIENT_S = 30.0
"""A time limit that outlasts what happens."""

pytestmark = pytest.mark.limit_s(900)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with (
        tempfile.TemporaryDirectory(prefix="chorale-hosts-") as folder,
        Hosts(ALL) as hosts,
        Cluster(hosts, Path(folder)) as cluster,
    ):
        cluster.index()
        with asking(cluster, most=20) as warming:
            warming.wait()
        yield cluster


def asking(cluster: Cluster, *, timeout_s: float = PATIENT_S, most: int = REQUESTS) -> Caller:
    url = cluster.redis_url("caller")
    return Caller(cluster.hosts.enter("c"), url, per_second=PER_SECOND, timeout_s=timeout_s, most=most)


def nobody_waited_too_long(caller: Caller) -> None:
    assert len(caller.asked) == REQUESTS
    assert caller.late() == []
    # A named error says more than that something is wrong.
    assert {one.outcome for one in caller.asked} <= ANSWERS | {"ServiceUnavailable", "failed", "refused"}


def test_a_clock_that_is_30_s_wrong_costs_nothing(cluster: Cluster) -> None:
    """The clock of host b is wrong by this, in all tests."""
    with asking(cluster) as caller:
        caller.wait()
    nobody_waited_too_long(caller)
    assert caller.outcomes().keys() <= ANSWERS, caller.outcomes()


def test_a_host_that_is_cut_off_for_5_s_costs_no_caller_on_another_host_its_answer(cluster: Cluster) -> None:
    with asking(cluster) as caller:
        time.sleep(5)
        with cluster.hosts.cut_off("b"):
            time.sleep(5)
        caller.wait()
    nobody_waited_too_long(caller)
    assert caller.outcomes().keys() <= ANSWERS, caller.outcomes()


def test_a_redis_that_is_200_ms_away_and_loses_one_packet_of_20_keeps_the_deadlines(cluster: Cluster) -> None:
    cluster.delay(0.2)
    try:
        with cluster.hosts.lossy(cluster.primary(), 0.05), asking(cluster, timeout_s=5) as caller:
            caller.wait()
    finally:
        cluster.delay(0)
    nobody_waited_too_long(caller)


def test_a_killed_host_costs_no_request(cluster: Cluster) -> None:
    with asking(cluster) as caller:
        time.sleep(5)
        cluster.workers["a"].kill()
        caller.wait()
    nobody_waited_too_long(caller)
    assert caller.outcomes().keys() <= ANSWERS, caller.outcomes()
    cluster.start_worker("a")
    until(lambda: "a" in cluster.ready(), LIMIT_S)


def test_a_failover_of_redis_loses_no_request_of_a_caller_that_waits(cluster: Cluster) -> None:
    with asking(cluster) as caller:
        time.sleep(5)
        old = cluster.primary()
        cluster.redis[old].kill()
        until(lambda: cluster.primary() not in ("", old), LIMIT_S)
        caller.wait()
    nobody_waited_too_long(caller)
    # A caller without a primary gets an error at once; a request that was accepted before is not lost.
    assert caller.outcomes()["failed"] == 0, caller.outcomes()
    assert caller.outcomes().keys() <= ANSWERS | {"ServiceUnavailable"}, caller.outcomes()
    cluster.restart_as_replica(old)
    with asking(cluster, most=20) as after:
        after.wait()
    assert after.outcomes().keys() <= ANSWERS, after.outcomes()
