"""A branch that fails again and again is not asked, one request tries it, and its answer brings it back."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from chorale_client import Answer

from ledger.breaker_outcomes import Outcome
from ledger.breakers import ALL_WELL_FOR_S, Breakers
from models.declarations.extensions import BranchKind, Kinds
from models.errors import StoreUnavailable
from models.hits import Ranking
from tasks.branches import searches
from tasks.branches.branch_task import BranchTask
from tasks.wiring.pipeline import BUILT_IN
from tests.integration.tasks.answers import ids, reasons
from tests.support.command_line import in_process
from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.pipeline_files import LOCAL, branch

PIPELINE = f"""
{LOCAL}
[stores.other]
kind = "embedded"
{branch("bm25")}
{branch("moody", "dense", store="other")}
{branch("twin", "dense", kind="moody", store="other")}
"""
OPEN_BREAKER = [("search.moody", "breaker_open")]


class FlakyPipeline(OneProcess):
    """A pipeline of `bm25`, and of two branches of another store that do as they are told."""

    mood = "well"

    def search(self, part: BranchTask) -> list[Ranking]:
        if self.mood == "error":
            raise RuntimeError("not today")
        if self.mood == "unavailable":
            raise StoreUnavailable("nobody is at home")
        return searches.search_bm25(part)

    def ask_branches(self, *branches: str, **options: Any) -> Answer:
        return self.ask("ERR-4711", branches=list(branches), cache="bypass", **options)

    def open_moody(self, mood: str = "error") -> None:
        self.redis.delete(*self.redis.keys("chorale:breaker:*"), "none")
        self.mood = mood
        for _ in range(3):
            assert reasons(self.ask_branches("bm25", "moody")) == [("search.moody", mood)]
        self.mood = "well"
        # The planner may have found all well just before.
        time.sleep(ALL_WELL_FOR_S + 0.02)

    def half_open(self) -> None:
        self.open_moody()
        self.redis.hset("chorale:breaker:moody", "open_until", 1)

    def answers(self, count: int, *branches: str) -> list[Answer]:
        """The answers to requests that are all planned before a branch is asked."""
        planned = [self.submit("ERR-4711", branches=list(branches), cache="bypass") for _ in range(count)]
        self.work()
        return [self.answer(request_id) for request_id in planned]


@pytest.fixture(scope="module")
def flaky() -> Iterator[FlakyPipeline]:
    kinds = BUILT_IN | Kinds(branches={"moody": BranchKind(lambda part: pipeline.search(part))})
    environment = {"CHORALE_BREAKER_FAILURES": "3", "CHORALE_BREAKER_OPEN_S": "60"}
    with FlakyPipeline.with_file(PIPELINE, kinds=kinds, environment=environment) as pipeline:
        pipeline.index()
        yield pipeline


def test_after_failures_in_a_row_the_branch_is_not_asked_and_the_answer_says_since_when(
    flaky: FlakyPipeline,
) -> None:
    flaky.open_moody()
    answer = flaky.ask_branches("bm25", "moody")
    assert reasons(answer) == OPEN_BREAKER
    assert "3 failures in a row, the last: error" in answer.degraded[0].detail
    assert (answer.status, ids(answer)[0]) == ("degraded", "error")
    stages = {stage.stage: (stage.status, stage.detail) for stage in answer.stages}
    assert stages["search.moody"] == ("skipped", "breaker_open")


def test_one_request_alone_asks_a_half_open_branch_and_its_answer_closes_the_breaker(
    flaky: FlakyPipeline,
) -> None:
    flaky.half_open()
    probe, *others = flaky.answers(4, "bm25", "moody")
    assert probe.status == "complete"
    assert [reasons(answer) for answer in others] == [OPEN_BREAKER] * 3
    assert not flaky.redis.exists("chorale:breaker:moody")
    assert flaky.ask_branches("bm25", "moody").status == "complete"


def test_if_a_store_is_away_its_other_branches_are_left_out_too(flaky: FlakyPipeline) -> None:
    flaky.open_moody("unavailable")
    answer = flaky.ask_branches("bm25", "twin")
    assert reasons(answer) == [("search.twin", "breaker_open")]
    assert answer.degraded[0].detail.startswith("'other', its store, not asked since")
    assert not flaky.redis.exists("chorale:breaker:store:local"), "bm25 answered on that one"


def test_a_request_that_requires_the_open_branch_fails_at_once(flaky: FlakyPipeline) -> None:
    flaky.open_moody()
    policies: list[dict[str, Any]] = [{"require": ["moody"]}, {"min_branches": 2}, {"on_missing": "fail"}]
    for policy in policies:
        planned = flaky.submit("ERR-4711", branches=["bm25", "moody"], cache="bypass", **policy)
        answer = flaky.answer(planned)
        assert (answer.status, answer.hits) == ("failed", ())
        assert reasons(answer) == [("search.bm25", "cancelled"), *OPEN_BREAKER]
    assert flaky.redis.llen("chorale.bm25") == 0, "nobody was asked"


def test_if_every_branch_is_open_one_request_at_a_time_still_tries_them(flaky: FlakyPipeline) -> None:
    """Before the time is over: without it there would be no answer at all."""
    flaky.open_moody()
    first, *others = flaky.answers(3, "moody")
    assert (first.status, reasons(first)) == ("complete", [])
    assert [(answer.status, reasons(answer)) for answer in others] == [("failed", OPEN_BREAKER)] * 2


def test_status_shows_what_is_not_closed(here: OneProcess) -> None:
    # Longer open than the command takes on any machine.
    Breakers(here.redis, failures=1, open_s=600).count("x", [Outcome("vector", "failed", "timeout")])
    called = in_process("status", "--json", **here.environment)
    here.redis.delete("chorale:breaker:vector")
    (breaker,) = json.loads(called.stdout)["breakers"]
    assert (breaker["name"], breaker["state"], breaker["reason"]) == ("vector", "open", "timeout")
