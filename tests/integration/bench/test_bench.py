"""`python -m tests.bench` at a small size: every figure is there, whatever its value, and nothing is left behind."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.pipelines.forked_children import run_module

pytestmark = [pytest.mark.long, pytest.mark.limit_s(360)]

Figures = dict[str, Any]
WHOLE = {
    "latency": "--questions 3 --documents 30 --in-flight 2",
    "http": "--questions 3 --documents 30 --in-flight 1 --in-flight 2",
    "bulk": "--questions 30 --requests 3 --documents 30",
}
"""Commands that measure a whole installation; here they share one."""


def figures_of(folder: Path, module: str, *arguments: str) -> list[Figures]:
    environment = {**os.environ, "TMPDIR": str(folder)}
    done = run_module(module, *arguments, environment=environment, timeout_s=250)
    assert done.returncode == 0, done.stderr
    assert not list(folder.glob("chorale-*"))
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Figures]:
    """The figures of each command."""
    calls = [f"{command} {options}" for command, options in WHOLE.items()]
    module = "tests.integration.bench.on_one_installation"
    return dict(zip(WHOLE, figures_of(tmp_path_factory.mktemp("bench"), module, *calls), strict=True))


def test_a_job_and_its_rivals_answer_the_same_questions(whole: dict[str, Figures]) -> None:
    wire = whole["bulk"]
    assert wire["v"] == 1
    assert [run["name"] for run in wire["runs"]] == ["job", "in_process"]
    assert all(run["questions_per_s"] > 0 for run in wire["runs"])
    assert [run["name"] for run in wire["interactive"]] == ["alone", "beside"]
    assert all(0 < run["p50_ms"] <= run["p95_ms"] and not run["hung"] for run in wire["interactive"])


def test_growth_has_a_row_for_each_number_in_flight_with_processor_time_of_each_role(
    tmp_path: Path,
) -> None:
    options = "--passages 1000 --processes 1 --in-flight 1 --in-flight 4 --questions 4"
    (figures,) = figures_of(tmp_path, "tests.bench", "growth", "--json", *options.split())
    runs = figures["runs"]
    rows = [(run["passages"], run["processes"], run["in_flight"]) for run in runs]
    assert rows == [(1_000, 1, 1), (1_000, 1, 4)]
    for run in runs:
        assert (run["p50_ms"] > 0, run["hung"]) == (True, 0)
        assert run["cpu_ms"].keys() == {
            "bm25",
            "vector",
            "hyde",
            "fusion",
            "sweeper",
            "drainer",
            "redis",
            "caller",
        }


def test_growth_of_replicas_has_their_processor_time(tmp_path: Path) -> None:
    options = "--replicas --passages 1000 --processes 2 --in-flight 4 --questions 4"
    (figures,) = figures_of(tmp_path, "tests.bench", "growth", "--json", *options.split())
    (run,) = figures["runs"]
    assert (run["processes"], run["hung"]) == (2, 0)
    assert run["cpu_ms"].keys() == {"replica", "sweeper", "drainer", "redis", "caller"}


def test_one_cell_and_two_answer_the_same_questions(tmp_path: Path) -> None:
    options = "--questions 3 --documents 30 --in-flight 2"
    (figures,) = figures_of(tmp_path, "tests.bench", "cells", "--json", *options.split())
    assert [(run["name"], run["hung"]) for run in figures["runs"]] == [
        ("1 of 2 cells", 0),
        ("2 of 2 cells", 0),
    ]
    first, both = ([name for name in run["cpu_ms"] if name.startswith("1 ")] for run in figures["runs"])
    assert first == ["1 redis"]  # the workers of the second cell stand still
    assert len(both) > 1


def test_the_client_and_http_answer_the_same_questions(whole: dict[str, Figures]) -> None:
    runs = whole["http"]["runs"]
    expected = [(name, in_flight) for in_flight in (1, 2) for name in ("client", "http")]
    assert [(run["name"], run["in_flight"]) for run in runs] == expected
    assert all(run["p50_ms"] > 0 and run["requests_per_s"] > 0 and run["hung"] == 0 for run in runs)
    # The server has no part in what the client asks.
    assert {run["name"] for run in runs if "http" in run["cpu_ms"]} == {"http"}


def test_latency_has_times_processor_time_redis_cost_and_the_waterfall(
    whole: dict[str, Figures],
) -> None:
    wire = whole["latency"]
    assert wire["v"] == 1
    names = ["chord", "in_process", "plain_chord", "cache"]
    assert [(run["name"], run["in_flight"]) for run in wire["runs"]] == [(name, 2) for name in names]
    for run in (*wire["runs"], *wire["no_op_runs"]):
        assert 0 < run["p50_ms"] <= run["p95_ms"] <= run["p99_ms"]
        assert run["requests_per_s"] > 0
        assert run["name"] == "plain_chord" or run["hung"] == 0
        assert {"caller", "redis"} <= run["cpu_ms"].keys()
    assert {run["name"] for run in wire["no_op_runs"]} == {"chord", "in_process", "plain_chord"}
    assert wire["redis_bytes_left_per_request"] > 0
    # a row for the request, its question and each branch, and for each hit
    assert wire["audit_rows_per_request"] > 5
    assert [cost["in_flight"] for cost in wire["redis_at"]] == [1, 16]
    for cost in wire["redis_at"]:
        assert cost["operations"] > 10  # accept, plan, three starts, three reports, join, finish
        assert cost["bytes_moved"] > 0
    stages = {line["stage"] for line in wire["waterfall"]}
    assert stages >= {"plan", "search.bm25", "search.vector", "search.hyde", "fuse", "fetch"}
