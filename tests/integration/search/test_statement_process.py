"""The process of statements: when it starts, when it is left alone, and when it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress

import kglite
import psutil
import pytest

from models.errors import StageFailure, StoreTimeout, UnknownNamespace
from search.deadline import Deadline
from search.engines.graph.statement_process import StatementProcess
from tests.contracts.cypher import ENDLESS
from tests.support.waiting import until

NAMES = "MATCH (node) RETURN node.id AS id"


def graph_of(name: str) -> bytes:
    graph = kglite.KnowledgeGraph()
    graph.cypher("CREATE (:Document {id: $id})", params={"id": name})
    return graph.to_bytes()


def run_endless() -> None:
    """Runs in a process of its own, which is killed during the statement."""
    process = StatementProcess("the graph")
    process.put("ns", graph_of("a"))
    print(process._process.pid, flush=True)
    process.rows("ns", ENDLESS, {}, Deadline(600, "the graph"), wanted=["id"])


@pytest.fixture
def process() -> Iterator[StatementProcess]:
    with closing(StatementProcess("the graph 'cites'")) as process:
        yield process


def names(process: StatementProcess, namespace: str = "ns") -> list[str]:
    rows, _ = process.rows(namespace, NAMES, {}, Deadline(30, "the graph"), wanted=["id"])
    return [row["id"] for row in rows]


def test_a_process_that_was_killed_while_it_was_idle_starts_again_with_the_next_graph(
    process: StatementProcess,
) -> None:
    process.put("ns", graph_of("a"))
    process._process.send_signal(signal.SIGKILL)
    process.put("other", graph_of("b"))
    assert (names(process), names(process, "other")) == (["a"], ["b"])


def test_a_graph_that_cannot_be_loaded_changes_nothing(process: StatementProcess) -> None:
    process.put("ns", graph_of("a"))
    process.put("other", graph_of("b"))
    with pytest.raises(StageFailure, match="the graph 'cites': the process of its statements ended"):
        process.put("other", b"no graph")
    assert (names(process), names(process, "other")) == (["a"], ["b"])


def test_a_process_that_received_no_statement_in_time_goes_on(
    process: StatementProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    process.put("ns", graph_of("a"))
    process._stop()
    start, deadline = process._start, Deadline(30, "the graph")

    def start_slowly() -> None:
        start()
        deadline._end = 0

    monkeypatch.setattr(process, "_start", start_slowly)
    with pytest.raises(StoreTimeout):
        process.rows("ns", NAMES, {}, deadline, wanted=["id"])
    started = process._process.pid
    assert names(process) == ["a"]
    assert process._process.pid == started


def test_a_search_for_a_graph_that_was_removed_meanwhile_names_its_namespace(
    process: StatementProcess,
) -> None:
    process.put("ns", graph_of("a"))
    process.put("ns", None)
    with pytest.raises(UnknownNamespace, match="no namespace 'ns'"):
        names(process)


def test_to_remove_a_graph_starts_no_process_and_nothing_starts_one_after_close(
    process: StatementProcess,
) -> None:
    process.put("ns", None)
    assert not process._is_running
    process.put("ns", graph_of("a"))
    process.close()
    process._start_again()
    with pytest.raises(StageFailure, match="is closed"):
        process.put("ns", graph_of("a"))
    with pytest.raises(StageFailure, match="is closed"):
        names(process)
    assert not process._is_running


def test_a_statement_ends_when_its_worker_is_killed() -> None:
    code = f"from {__name__} import run_endless; run_endless()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        process = psutil.Process(int(worker.stdout.readline()))
        loaded_s = process.cpu_times().user
        until(lambda: process.cpu_times().user > loaded_s + 0.2)
        worker.kill()
    try:
        until(lambda: _has_ended(process))
    finally:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _has_ended(process: psutil.Process) -> bool:
    """Where nobody waits for an orphan, it stays as a zombie."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
