"""Three hosts that share Redis and PostgreSQL alone, while the network, a clock, a host and Redis fail.

Every caller has an answer or a named error, .3 s after its deadline at the latest.  The caller is a process on host c, and the clock is its own.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.machines.asking import late
from tests.machines.caller import ANSWERS, Caller, Sender
from tests.machines.cluster import ALL, HAPROXY_PORT, LIMIT_S, READY, REDIS, Cluster
from tests.machines.hosts import Hosts
from tests.support.waiting import until

REQUESTS = 2_000
BEFORE = 200
"""Requests that have ended before a fault begins."""
PER_SECOND = 20
PATIENT_S = 30.0
"""A time limit that outlasts what happens."""
HASTY_S = 1.0
"""A time limit that a fault outlasts: these requests end at their deadline."""
MIXED_S = (PATIENT_S, PATIENT_S, PATIENT_S, HASTY_S)
"""On a busy machine each hasty request costs a new connection, so there are few of them."""

pytestmark = pytest.mark.limit_s(1800)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with (
        tempfile.TemporaryDirectory(prefix="chorale-hosts-") as folder,
        Hosts(ALL) as hosts,
        Cluster(hosts, Path(folder)) as cluster,
    ):
        # Workers that have not searched yet may be late.
        until(lambda: "complete · " in cluster.index(), LIMIT_S)
        with asking(cluster, limits_s=(PATIENT_S,), most=20) as warming:
            warming.wait()
        yield cluster


def asking(
    cluster: Cluster,
    *,
    limits_s: Sequence[float] = MIXED_S,
    most: int = REQUESTS,
    in_flight: int = 8,
    port: int = 6379,
) -> Caller:
    """A slow machine answers fewer requests a second, since only so many are in flight."""
    enter, url = cluster.hosts.enter("c"), cluster.redis_url("caller", port)
    return Caller(enter, url, per_second=PER_SECOND, limits_s=limits_s, most=most, in_flight=in_flight)


def sending(cluster: Cluster, *, replicas: int) -> Sender:
    return Sender(cluster.hosts.enter("c"), cluster.redis_url("caller"), replicas=replicas)


def everybody_has_an_end_in_time(caller: Caller) -> None:
    """An answer, or an error that says what is wrong."""
    print(caller.lateness(), caller.outcomes(), "patient:", caller.outcomes(timeout_s=PATIENT_S))
    assert len(caller.requests) == REQUESTS
    assert caller.outcomes().keys() <= ANSWERS | {"ServiceUnavailable", "failed", "refused"}
    assert late(caller.requests) == []


def everybody_who_is_patient_has_an_answer(caller: Caller) -> None:
    everybody_has_an_end_in_time(caller)
    assert caller.outcomes(timeout_s=PATIENT_S).keys() <= ANSWERS, caller.outcomes()


def test_a_clock_that_is_30_s_wrong_costs_nothing(cluster: Cluster) -> None:
    """The clock of host b is wrong by this time in all tests."""
    with asking(cluster) as caller:
        caller.wait()
    everybody_who_is_patient_has_an_answer(caller)


def test_a_host_that_is_cut_off_for_5_s_costs_no_caller_on_another_host_its_answer(cluster: Cluster) -> None:
    with asking(cluster) as caller:
        until(lambda: caller.has_printed(BEFORE), LIMIT_S)
        with cluster.hosts.cut_off("b"):
            time.sleep(5)
        caller.wait()
    everybody_who_is_patient_has_an_answer(caller)


def test_a_redis_that_is_200_ms_away_and_loses_one_packet_of_20_gives_every_caller_an_end(
    cluster: Cluster,
) -> None:
    cluster.delay(0.2)
    try:
        with (
            cluster.hosts.lossy(cluster.primary(), 0.05),
            asking(cluster, limits_s=(10, 10, 10, HASTY_S), in_flight=32) as caller,
        ):
            caller.wait()
    finally:
        cluster.delay(0)
    everybody_has_an_end_in_time(caller)
    assert any(one.late_s > 0 for one in caller.requests), "no request has reached its deadline"
    # Workers that are so far away answer few of them in time.
    assert caller.outcomes(timeout_s=10).keys() & ANSWERS
    # The next test finds no breaker open.
    until(lambda: "complete · " in cluster.index(), LIMIT_S)


def test_a_killed_host_costs_no_request(cluster: Cluster) -> None:
    with asking(cluster) as caller:
        until(lambda: caller.has_printed(BEFORE), LIMIT_S)
        cluster.hosts.kill("b")
        caller.wait()
    everybody_who_is_patient_has_an_answer(caller)
    cluster.start("b")
    until(lambda: cluster.ready() == READY, LIMIT_S)


@pytest.mark.parametrize("address", ["of the tests", "of HAProxy"])
def test_a_failover_of_redis_loses_no_request_of_a_caller_that_waits(cluster: Cluster, address: str) -> None:
    port = 6379
    if address == "of HAProxy":
        cluster.start_haproxy("c")
        port = HAPROXY_PORT
    with asking(cluster, port=port) as caller:
        until(lambda: caller.has_printed(BEFORE), LIMIT_S)
        old = cluster.primary()
        cluster.redis[old].kill()
        until(lambda: cluster.primary() not in ("", old), LIMIT_S)
        caller.wait()
    everybody_has_an_end_in_time(caller)
    # A caller without a primary gets an error at once; a request that was accepted before is not lost.
    patient = caller.outcomes(timeout_s=PATIENT_S)
    assert patient.keys() <= ANSWERS | {"ServiceUnavailable"}, caller.outcomes()
    cluster.restart_as_replica(old)
    with asking(cluster, limits_s=(PATIENT_S,), most=20, port=port) as after:
        after.wait()
    assert after.outcomes().keys() <= ANSWERS, after.outcomes()


def test_a_failover_loses_no_request_whose_sender_waited_for_a_replica(cluster: Cluster) -> None:
    """For two seconds the replica gets nothing, and then the primary dies."""
    old = cluster.primary()
    (replica,) = set(REDIS) - {old}
    with sending(cluster, replicas=0) as fast, sending(cluster, replicas=1) as sure:
        until(lambda: fast.has_printed(1) and sure.has_printed(1), LIMIT_S)
        time.sleep(2)
        with cluster.hosts.silent(old, to=replica):
            time.sleep(2)
            cluster.redis[old].kill()
            until(lambda: cluster.primary() == replica, LIMIT_S)
        time.sleep(5)
    print("without a wait:", fast.counts, "with a wait for one replica:", sure.counts)
    assert sure.counts["lost"] == 0, sure.counts
    assert sure.counts["sent"] > 0 < sure.counts["unsure"], sure.counts
    assert fast.counts["lost"] > 0, fast.counts
    cluster.restart_as_replica(old)
