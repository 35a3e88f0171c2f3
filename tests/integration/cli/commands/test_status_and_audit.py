"""`chorale status` and `chorale audit` on a running pipeline."""

from __future__ import annotations

import json
from typing import Any

from chorale_client import Chorale

from monitoring.queues import read_queues
from tests.support.command_line import Run
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until


def test_status_shows_every_worker_queue_and_namespace(chorale: Run, pipeline: RunningPipeline) -> None:
    found = chorale("status", "--json")
    assert (found.returncode, found.stderr) == (0, "")
    status: dict[str, Any] = json.loads(found.stdout)
    workers = {worker["name"]: worker for worker in status["workers"]}
    assert workers.keys() == {"worker", "chorale.vector", "chorale.bulk", "sweeper"}
    assert all(worker["is_ready"] for worker in workers.values())
    assert workers["chorale.vector"]["pid"] == pipeline.processes["chorale.vector"].pid
    assert [queue["queue"] for queue in status["queues"]] == list(pipeline.resources.pipeline.queues)
    assert (status["v"], status["chords"], status["requests_in_flight"]) == (1, "lean", 0)
    (default,) = (one for one in status["namespaces"] if one["name"] == "default")
    assert (default["documents"], default["generation"], default["published_generation"]) == (5, 1, 1)

    shown = chorale("status").stdout
    assert "0 in flight · chords are lean" in shown
    assert "ready" in shown


def test_status_prints_what_prometheus_reads_with_every_queue(
    chorale: Run, pipeline: RunningPipeline
) -> None:
    found = chorale("status", "--prometheus")
    assert (found.returncode, found.stderr) == (0, "")
    for queue in pipeline.resources.pipeline.queues:
        assert f'chorale_queue_messages{{queue="{queue}"}} 0.0' in found.stdout


def test_status_where_nothing_runs_is_a_sentence(alone: Run) -> None:
    found = alone("status", "--json")
    assert (found.returncode, found.stdout) == (1, "")
    assert "`chorale up`" in found.stderr


def test_a_queue_nobody_serves_shows_its_length_and_how_long_the_oldest_has_waited(
    own_redis_server: RedisServer,
) -> None:
    client = Chorale(own_redis_server.url)
    first = client.send("bread")
    client.send("butter")
    redis = own_redis_server.client()
    until(lambda: redis.llen("chorale.retrieve") == 2)
    # As if the first had come 90 seconds ago.
    seconds, _ = redis.time()
    redis.hset(f"chorale:request:{first}", "accepted_at", (seconds - 90) * 1000)
    retrieve, fusion = read_queues(redis, ["chorale.retrieve", "chorale.fusion"]).values()
    assert (retrieve.length, fusion.length, fusion.age_s) == (2, 0, None)
    assert retrieve.age_s is not None
    assert retrieve.age_s >= 90

    # The same through the broker's own interface, which knows no ages.
    through = read_queues(redis, ["chorale.retrieve"], broker_url=own_redis_server.celery_url)
    assert [(one.length, one.age_s) for one in through.values()] == [(2, None)]


def test_audit_lists_the_last_request_and_shows_everything_about_it(
    chorale: Run, pipeline: RunningPipeline
) -> None:
    answer = pipeline.client().retrieve(
        "who pays for repairs",
        cache="bypass",
        correlation_id="ours-1",
        include=("ids", "explanation"),
        timeout_s=20,
    )

    def lines() -> list[dict[str, Any]]:
        listed = json.loads(chorale("audit", "last", "--json").stdout)["requests"]
        return [line for line in listed if line["request_id"] == answer.request_id]

    (line,) = until(lines)
    assert (line["text"], line["status"], line["correlation_id"]) == (
        "who pays for repairs",
        answer.status,
        "ours-1",
    )

    whole = json.loads(chorale("audit", "show", answer.request_id, "--json").stdout)["request"]
    assert [hit["document_id"] for hit in whole["questions"][0]["hits"]] == [
        hit.document_id for hit in answer.hits
    ]
    assert {branch["branch"] for branch in whole["branches"]} == {"bm25", "vector", "hyde"}

    # A beginning of the id is enough.
    shown = chorale("audit", "show", answer.request_id[:13]).stdout
    assert answer.request_id in shown
    assert f"vector #{answer.hits[0].branches['vector'].rank}" in shown
    table = chorale("audit", "last", "3").stdout
    assert "who pays for repairs" in table


def test_audit_names_an_unknown_request_and_a_missing_trail(chorale: Run, alone: Run) -> None:
    unknown = chorale("audit", "show", "no-such-id")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert unknown.stderr.startswith("chorale: the trail has no request 'no-such-id'")
    nothing = alone("audit", "last", "--json")
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert "there is no audit trail sqlite:///" in nothing.stderr
