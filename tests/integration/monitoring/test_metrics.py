"""The metrics of real requests: counted by the drainer, rendered from Redis."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chorale_client.keys import METRICS, OVERLOAD, QUARANTINE, WAKEUPS
from prometheus_client.parser import text_string_to_metric_families
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from monitoring.counting import COUNTERS, GAUGES, HISTOGRAMS
from monitoring.exporter import render, render_cells
from monitoring.queues import QueueState
from tests.support.pipelines.one_process import OneProcess
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

Samples = dict[tuple[str, ...], float]


def samples(redis: Redis) -> Samples:
    """The value by name and the values of the labels, in the order of their names."""
    text = render(redis).decode()
    return {
        (one.name, *(value for _, value in sorted(one.labels.items()))): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


@pytest.fixture(scope="module")
def here() -> Iterator[OneProcess]:
    with RedisServer() as server, OneProcess(server) as pipeline:
        pipeline.index()
        yield pipeline


def test_requests_branches_and_the_cache_are_counted(here: OneProcess) -> None:
    for _ in range(3):
        assert here.ask("Who pays for repairs?").status == "complete"
    here.ask("ERR-4711", branches=["bm25"], cache="bypass")
    here.drain()
    counts = samples(here.redis)
    assert counts["chorale_request_duration_seconds_count", "complete"] == 4
    assert counts["chorale_request_duration_seconds_sum", "complete"] > 0
    questions = {name[1]: value for name, value in counts.items() if name[0] == "chorale_questions_total"}
    assert questions == {"bypass": 1, "miss": 1, "hit": 2}
    assert counts["chorale_branch_duration_seconds_count", "bm25", "ok"] == 2
    assert counts["chorale_branch_queue_wait_seconds_count", "vector"] == 1


def test_breakers_queues_outbox_and_sweeper_are_shown_as_they_are_now(here: OneProcess) -> None:
    here.ask("bread", cache="bypass")
    here.redis.hset("chorale:breaker:vector", mapping={"open_until": 2**52, "opened_at": 1, "failures": 5})

    def swept() -> Samples | None:
        """The lease of a sweeper is short, and a busy machine may lose it."""
        here.sweep()
        values = samples(here.redis)
        return values if values["chorale_sweeper_acting",] == 1 else None

    values = until(swept) or {}
    assert (values["chorale_breaker_open", "bm25"], values["chorale_breaker_open", "vector"]) == (0, 1)
    assert values["chorale_outbox_limit_entries",] == 10_000
    assert ("chorale_queue_messages", "chorale.bm25") in values
    here.redis.delete("chorale:breaker:vector")


def test_every_metric_is_rendered_before_the_first_request(redis_client: Redis) -> None:
    text = render(redis_client, queues={"chorale.index": QueueState(3, 0.5)}).decode()
    for series in (*HISTOGRAMS, *COUNTERS, *GAUGES):
        assert f"# HELP {series.name}" in text
    assert 'chorale_queue_messages{queue="chorale.index"} 3.0' in text
    name = "chorale_branch_duration_seconds"
    redis_client.hset(METRICS, mapping={f"{name}|bm25|empty|0": 2, f"{name}|bm25|empty|13": 1})
    bounds = samples(redis_client)
    counts = [bounds[f"{name}_bucket", "bm25", bound, "empty"] for bound in ("0.005", "60.0", "+Inf")]
    assert counts == [2, 2, 3]


def test_the_samples_of_each_cell_name_it_and_a_lost_cell_has_only_its_own_state(redis_client: Redis) -> None:
    redis_client.hset(METRICS, mapping={"chorale_questions|hit": 2})
    lost = Redis(port=1, retry=Retry(NoBackoff(), 0))
    text = render_cells(
        {"a": redis_client, "b": lost}, read_queues=lambda redis: {"chorale.index": QueueState(3, 0.5)}
    ).decode()
    assert text.count("# HELP chorale_questions_total") == 1
    for line in (
        'chorale_cell_up{cell="a"} 1.0',
        'chorale_cell_up{cell="b"} 0.0',
        'chorale_questions_total{cache="hit",cell="a"} 2.0',
        'chorale_queue_messages{cell="a",queue="chorale.index"} 3.0',
        'chorale_sweeper_acting{cell="a"} 0.0',
    ):
        assert line in text.splitlines()
    assert text.count('cell="b"') == 1


def test_a_moment_that_nobody_acts_on_is_the_sweepers_lag(redis_client: Redis) -> None:
    now_s = int(redis_client.time()[0])
    redis_client.zadd(WAKEUPS, {"forgotten": (now_s - 5) * 1000})
    redis_client.hset(QUARANTINE, mapping={"a": "no request", "b": "no plan"})
    redis_client.hset(
        OVERLOAD, mapping={"length:chorale.bm25": 7, "age_ms:chorale.bm25": 1500, "retry_after_ms": 250}
    )
    values = samples(redis_client)
    assert 4 <= values["chorale_sweeper_lag_seconds",] <= 60
    assert values["chorale_queue_messages", "chorale.bm25"] == 7
    assert values["chorale_queue_oldest_seconds", "chorale.bm25"] == 1.5
    assert values["chorale_refusing",] == 1
    assert values["chorale_quarantined_entries",] == 2
    assert values["chorale_sweeper_acting",] == 0
