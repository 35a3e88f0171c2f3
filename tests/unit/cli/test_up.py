"""Which processes `chorale up` starts, with what."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from assembly.pipeline import load_pipeline
from cli.local.child_output import JsonLines, PrefixedLines
from cli.local.processes import worker_children, worker_environment
from config.settings import Settings
from models.errors import WrongDeclaration
from monitoring.heartbeats import Heartbeat, RedisHeartbeats, parse_heartbeat
from tests.support.servers.redis_server import RedisServer


def test_in_the_layout_queues_up_starts_one_process_for_each_queue_and_a_sweeper() -> None:
    children = worker_children(
        Settings(layout="queues", worker_processes={"chorale.bulk": 1}), load_pipeline(), {"A": "b"}
    )
    assert [child.name for child in children] == [
        "retrieve-1", "bm25-1", "vector-1", "hyde-1", "fusion-1", "index-1", "bulk-1", "sweeper",
    ]  # fmt: skip
    assert children[1].argv == (sys.executable, "-m", "cli", "worker", "chorale.bm25", "--name", "bm25-1")
    assert children[-1].argv == (sys.executable, "-m", "cli", "sweeper", "--name", "sweeper")
    environment = {"A": "b", "CHORALE_LAYOUT": "queues"}
    assert all(child.env == environment and child.level == 1 and child.beats for child in children)


def test_the_settings_give_the_number_of_workers_of_a_queue() -> None:
    settings = Settings(
        layout="queues", worker_processes={"chorale.bm25": 2, "chorale.index": 0, "chorale.bulk": 0}
    )
    names = [child.name for child in worker_children(settings, load_pipeline(), {})]
    assert names == ["retrieve-1", "bm25-1", "bm25-2", "vector-1", "hyde-1", "fusion-1", "sweeper"]


def test_an_unknown_queue_is_refused_with_the_list_of_queues() -> None:
    settings = Settings(worker_processes={"chorale.nosuch": 2, "chorale.bm25": 2, "chorale.bm52": 0})
    with pytest.raises(WrongDeclaration) as raised:
        worker_children(settings, load_pipeline(), {})
    assert str(raised.value) == (
        "CHORALE_WORKER_PROCESSES: no queue bm52, nosuch; there are: retrieve, bm25, vector, hyde, fusion, index, bulk"
    )


def test_the_environment_of_workers_names_code_redis_and_home() -> None:
    environment = worker_environment(
        "unix:///r.sock?db=0", Path("/h"), {"PYTHONPATH": "/p", "OMP_NUM_THREADS": "3"}
    )
    assert environment["CHORALE_REDIS_URL"] == "unix:///r.sock?db=0"
    assert environment["CHORALE_HOME"] == "/h"
    assert environment["PYTHONPATH"] == f"{Path(__file__).parents[3]}:/p"
    assert (environment["OMP_NUM_THREADS"], environment["OPENBLAS_NUM_THREADS"]) == ("3", "1")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b'{"at": 9500, "ready": true, "pid": 1}', Heartbeat("a", 0.5, is_ready=True, pid=1)),
        (b'{"at": 10500, "ready": false}', Heartbeat("a", 0.0, is_ready=False)),
        (b'{"at": "x", "ready": true}', None),
        (b"[]", None),
        (b"{", None),
        (None, None),
    ],
)
def test_a_heartbeat_is_as_old_as_the_redis_clock_says(
    value: bytes | None, expected: Heartbeat | None
) -> None:
    assert parse_heartbeat("a", value, now_ms=10_000) == expected


def test_while_redis_does_not_answer_heartbeats_are_unknown_and_that_of_redis_is_missing(
    own_redis_server: RedisServer,
) -> None:
    with own_redis_server.client() as client:
        seconds, _ = client.time()
        client.set("chorale:heartbeat:a", json.dumps({"at": seconds * 1000, "ready": True, "pid": 1}))
    heartbeats = RedisHeartbeats(own_redis_server.url, server="redis")
    found = heartbeats(["redis", "a", "b"])
    assert found.keys() == {"redis", "a"}
    assert found["redis"] == Heartbeat("redis", 0.0, is_ready=True)
    own_redis_server.pause()
    assert heartbeats(["redis", "a", "b"]) == {"a": None, "b": None}
    own_redis_server.resume()
    assert heartbeats(["redis", "a", "b"]).keys() == {"redis", "a"}


def test_each_output_line_names_its_process() -> None:
    plain = io.StringIO()
    output = PrefixedLines(plain, ["redis", "bm25-1"])
    output("redis", b"up")
    output("bm25-1", b"caf\xe9")
    assert plain.getvalue() == "redis  │ up\nbm25-1 │ caf\ufffd\n"

    lines = io.StringIO()
    as_json = JsonLines(lines)
    as_json("redis", b"up")
    as_json("bm25-1", b'{"event": "stage", "ms": 1}')
    as_json("bm25-1", b"[1]")
    assert [json.loads(line) for line in lines.getvalue().splitlines()] == [
        {"process": "redis", "line": "up"},
        {"process": "bm25-1", "event": "stage", "ms": 1},
        {"process": "bm25-1", "line": "[1]"},
    ]


def test_writing_to_a_closed_stream_raises_no_error() -> None:
    stream = io.StringIO()
    output = PrefixedLines(stream, [])
    stream.close()
    output("redis", b"up")
