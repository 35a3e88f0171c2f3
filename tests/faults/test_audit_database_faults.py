"""While the audit database cannot be written, answers stay the same; later every row is written once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from chorale_client import Answer
from chorale_client.keys import HEARTBEAT, OUTBOX

from cli.commands.status import read_status
from cli.doctor.audit_trail import schema
from cli.installation import Installation
from tests.support.faults.moments import end_without_fusion
from tests.support.faults.observers import audited, in_outbox
from tests.support.faults.serving import serving
from tests.support.faults.waiting import is_whole
from tests.support.pipelines.failpoints import PROCESS
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.pipelines.pipeline_files import BM25_ALONE
from tests.support.servers.database_process import line_of, started
from tests.support.waiting import until

ORDERS = "orders"
PRELOAD = f"""
import os
if os.environ.get({PROCESS!r}) == "sweeper":
    from pathlib import Path
    from sqlalchemy import event, pool
    def obey(connection, _record, _proxy):
        orders = Path(os.environ["CHORALE_HOME"], {ORDERS!r})
        if orders.exists():
            connection.execute(orders.read_text())
    event.listen(pool.Pool, "checkout", obey)
"""
"""The drainer's connections obey the pragma in a file of this name, which stands for a fault of the disk."""

Fault = Callable[[RunningPipeline], AbstractContextManager[None]]

WRITE_LIMIT_S = 0.5
"""Longer than a row needs to be written without a fault."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPipeline]:
    file = tmp_path_factory.mktemp("bm25") / "pipeline.toml"
    file.write_text(BM25_ALONE)
    queues = ["chorale.retrieve", "chorale.bm25", "chorale.fusion"]
    with serving(queues, pipeline_file=file, preload=PRELOAD) as pipeline:
        until(lambda: database(pipeline).exists())
        yield pipeline


def database(pipeline: RunningPipeline) -> Path:
    return pipeline.home / "audit.db"


@contextmanager
def locked(pipeline: RunningPipeline) -> Iterator[None]:
    """Another process is in the middle of a long transaction."""
    with started("hold", pipeline.resources.settings.audit_database_url) as holder:
        assert line_of(holder) == "locked"
        yield


@contextmanager
def gone(pipeline: RunningPipeline) -> Iterator[None]:
    """Somebody moved the files away, and brings them back."""
    away = pipeline.home / "away"
    away.mkdir()
    for file in pipeline.home.glob("audit.db*"):
        file.rename(away / file.name)
    yield
    assert not database(pipeline).exists(), "an empty database was put in its place"
    for file in away.iterdir():
        file.rename(pipeline.home / file.name)
    away.rmdir()


def ordered(fault: str, end: str) -> Fault:
    """The disk has this fault until the block ends."""

    @contextmanager
    def lasting(pipeline: RunningPipeline) -> Iterator[None]:
        orders = pipeline.home / ORDERS
        for order in (fault, end):
            new = orders.with_suffix(".new")
            new.write_text(order)
            new.replace(orders)
            if order == fault:
                yield

    return lasting


FAULTS: dict[str, Fault] = {
    "locked": locked,
    "gone": gone,
    "read-only": ordered("PRAGMA query_only = ON", "PRAGMA query_only = OFF"),
    "full": ordered("PRAGMA max_page_count = 1", "PRAGMA max_page_count = 1073741823"),
}


def ask(pipeline: RunningPipeline) -> Answer:
    return pipeline.client().retrieve("ERR-4711", cache="bypass", timeout_s=20)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_database_that_cannot_be_written_costs_no_answer_and_no_row(
    running: RunningPipeline, fault: Fault
) -> None:
    audited(running, ask(running).request_id)
    with fault(running):
        answers = [ask(running) for _ in range(5)]
        time.sleep(WRITE_LIMIT_S)
        for answer in answers:
            assert (answer.status, answer.hits[0].document_id) == ("complete", "error")
            assert in_outbox(running.redis, answer.request_id)
        assert running.processes["sweeper"].poll() is None

    for answer in answers:
        row = audited(running, answer.request_id)
        assert (row.status, row.took_ms) == ("complete", answer.took_ms)
    assert running.redis.xlen(OUTBOX) == 0


def test_status_and_doctor_say_that_entries_wait_and_that_the_database_is_gone(
    running: RunningPipeline,
) -> None:
    around = Installation(running.resources.settings, running.server.url)
    with gone(running):
        request_id = ask(running).request_id
        waiting = read_status(around)["outbox"]
        assert waiting["entries"] == 1
        assert waiting["oldest_s"] > 0
        (finding,) = schema(around)
        assert "there is no audit database" in finding.what
    assert list(schema(around)) == []
    audited(running, request_id)


def test_a_sweeper_that_starts_while_the_database_is_locked_still_ends_requests(
    running: RunningPipeline,
) -> None:
    """The sweeper ends a request that nobody fuses; the rows are written when the database is free."""
    running.kill("sweeper")
    with locked(running):
        running.start("sweeper")
        # It is not ready, and works.
        until(lambda: b"has not answered yet" in (running.redis.get(HEARTBEAT + "sweeper") or b""))
        running.kill("chorale.fusion")
        with ThreadPoolExecutor(1) as executor:
            future = executor.submit(ask, running)
            end_without_fusion(running)
            answer = future.result(60)
        assert (answer.status, answer.hits[0].document_id) == ("degraded", "error")
        assert [(missing.where, missing.reason) for missing in answer.degraded] == [("fuse", "not_started")]
    assert audited(running, answer.request_id).status == "degraded"
    running.start("chorale.fusion")
    running.wait_ready(["chorale.fusion"])
    assert is_whole(running)


def test_the_next_start_creates_a_database_that_was_removed(running: RunningPipeline) -> None:
    """The new file has the requests that ended in between: no row is written to a file that was deleted."""
    for file in running.home.glob("audit.db*"):
        file.unlink()
    answer = ask(running)
    time.sleep(WRITE_LIMIT_S)
    assert in_outbox(running.redis, answer.request_id)

    running.kill("sweeper")
    running.start("sweeper")

    assert audited(running, answer.request_id).status == "complete"
