"""A branch that fails again and again is not asked, one request tries it, and its answer brings it back."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chorale_client import Answer

from ledger.breakers import ALL_WELL_FOR_S
from tests.support.command_line import command
from tests.support.pipelines.kinds import kinds_with
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

OPEN_S = 60
LONG_AGO_MS = 1

MOODY_KIND = """
import time
from pathlib import Path
from models.errors import StoreUnavailable
from branches.kinds import bm25
from tests.support.pipelines.kinds import declare

def moody(part):
    mood = Path({mood!r}).read_text()
    if mood == "raises":
        raise RuntimeError("not today")
    if mood == "unavailable":
        raise StoreUnavailable("nobody is at home")
    while Path({mood!r}).read_text() == "waits":
        time.sleep(0.02)
    return bm25.search_bm25(part)

declare(moody=moody)
"""

PIPELINE = """
[stores.local]
kind = "embedded"

[stores.other]
kind = "embedded"

[branches.bm25]
kind = "bm25"
group = "lexical"
store = "local"

[branches.moody]
kind = "moody"
group = "dense"
store = "other"

[branches.twin]
kind = "moody"
group = "dense"
store = "other"
"""


class Moody(RunningPipeline):
    """A pipeline of `bm25`, and of two branches of another store that do as they are told."""

    mood_file: Path

    def mood(self, word: str) -> None:
        self.mood_file.write_text(word)

    def ask(self, *branches: str, **options: Any) -> Answer:
        options = {"cache": "bypass", "timeout_s": 20, **options}
        return self.client().retrieve("ERR-4711", branches=list(branches), **options)

    def open_moody(self, word: str = "raises", failures: int = 3) -> None:
        self.mood(word)
        for _ in range(failures):
            reason = "error" if word == "raises" else word
            assert reasons(self.ask("bm25", "moody")) == [("search.moody", reason)]
        self.wait_counted("moody")

    def wait_counted(self, name: str) -> None:
        """Outcomes are counted after the end that the caller saw."""
        until(lambda: self.redis.hexists(f"chorale:breaker:{name}", "opened_at"))
        # The planner may have found all well just before.
        time.sleep(ALL_WELL_FOR_S + 0.02)

    def half_open(self) -> None:
        self.open_moody()
        self.redis.hset("chorale:breaker:moody", "open_until", LONG_AGO_MS)

    def open_until_ms(self) -> int:
        return int(self.redis.hget("chorale:breaker:moody", "open_until") or 0)

    def forget(self) -> None:
        for key in self.redis.keys("chorale:breaker:*"):
            self.redis.delete(key)
        self.mood("well")


def reasons(answer: Answer) -> list[tuple[str, str]]:
    return [(one.where, one.reason) for one in answer.degraded]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moody]:
    folder = tmp_path_factory.mktemp("moody")
    (folder / "pipeline.toml").write_text(PIPELINE)
    (folder / "mood").write_text("well")
    preload = MOODY_KIND.format(mood=str(folder / "mood"))
    with (
        RedisServer() as server,
        Moody(
            server,
            queues=["chorale.retrieve", "chorale.bm25", "chorale.moody", "chorale.twin", "chorale.fusion"],
            pipeline_file=folder / "pipeline.toml",
            kinds=kinds_with("moody"),
            environment={
                "CHORALE_BREAKER_FAILURES": "3",
                "CHORALE_BREAKER_OPEN_S": str(OPEN_S),
            },
            preload=preload,
        ) as moody,
    ):
        moody.mood_file = folder / "mood"
        moody.index()
        yield moody


@pytest.fixture
def moody(running: Moody) -> Iterator[Moody]:
    running.forget()
    yield running
    # Whatever a test did, the next request is whole.
    running.forget()
    assert running.ask("bm25", "moody", "twin").status == "complete"


def test_after_failures_in_a_row_the_branch_is_not_asked_and_the_answer_says_since_when(moody: Moody) -> None:
    moody.open_moody()
    moody.mood("waits")
    answer = moody.ask("bm25", "moody")

    assert reasons(answer) == [("search.moody", "breaker_open")]
    assert "3 failures in a row, the last: error" in answer.degraded[0].detail
    assert (answer.status, answer.hits[0].document_id) == ("degraded", "error")
    assert answer.took_ms < 10_000, "nobody waited for it"
    stages = {stage.stage: (stage.status, stage.detail) for stage in answer.stages}
    assert stages["search.moody"] == ("skipped", "breaker_open")


def test_the_probe_s_answer_closes_it_and_the_next_request_is_whole(moody: Moody) -> None:
    moody.half_open()
    moody.mood("well")

    assert moody.ask("bm25", "moody").status == "complete"
    until(lambda: not moody.redis.exists("chorale:breaker:moody"))
    assert moody.ask("bm25", "moody").status == "complete"


def asked_at_once(moody: Moody, count: int, *branches: str) -> tuple[list[Answer], Answer]:
    """The answers of all but one, while that one still waits for the branch; and its own, once the branch is well."""
    moody.mood("waits")
    answers: list[Answer] = []
    threads = [
        threading.Thread(target=lambda: answers.append(moody.ask(*branches, timeout_s=60)))
        for _ in range(count)
    ]
    for thread in threads:
        thread.start()
    until(lambda: len(answers) == count - 1)
    moody.mood("well")
    for thread in threads:
        thread.join()
    return answers[:-1], answers[-1]


def test_one_request_alone_asks_a_half_open_branch(moody: Moody) -> None:
    moody.half_open()
    others, the_one = asked_at_once(moody, 6, "bm25", "moody")

    assert the_one.status == "complete"
    assert [reasons(answer) for answer in others] == [[("search.moody", "breaker_open")]] * 5


def test_the_probe_s_failure_opens_it_again(moody: Moody) -> None:
    moody.half_open()
    assert reasons(moody.ask("bm25", "moody")) == [("search.moody", "error")]
    until(lambda: moody.open_until_ms() > LONG_AGO_MS)
    assert reasons(moody.ask("bm25", "moody")) == [("search.moody", "breaker_open")]


def test_if_a_store_is_away_its_other_branches_are_left_out_too(moody: Moody) -> None:
    moody.open_moody("unavailable")
    moody.wait_counted("store:other")
    moody.mood("well")
    answer = moody.ask("bm25", "twin")
    assert reasons(answer) == [("search.twin", "breaker_open")]
    assert answer.degraded[0].detail.startswith("'other', its store, not asked since")
    assert not moody.redis.exists("chorale:breaker:store:local"), "bm25 answered on that one"


@pytest.mark.parametrize(
    "policy", [{"require": ["moody"]}, {"min_branches": 2}, {"on_missing": "fail"}], ids=str
)
def test_a_request_that_requires_the_open_branch_fails_at_once(moody: Moody, policy: dict[str, Any]) -> None:
    moody.open_moody()
    moody.mood("waits")
    moody.pause("chorale.bm25")
    try:
        answer = moody.ask("bm25", "moody", **policy)
    finally:
        moody.resume("chorale.bm25")
    assert (answer.status, answer.hits) == ("failed", ())
    assert reasons(answer) == [("search.bm25", "cancelled"), ("search.moody", "breaker_open")]
    assert answer.took_ms < 10_000, "nobody was asked"


def test_if_every_branch_is_open_one_request_at_a_time_still_tries_them(moody: Moody) -> None:
    """Before the time is over: without it there would be no answer at all."""
    moody.open_moody()
    others, the_one = asked_at_once(moody, 3, "moody")

    assert (the_one.status, reasons(the_one)) == ("complete", [])
    assert [answer.status for answer in others] == ["failed", "failed"]
    assert [reasons(answer) for answer in others] == [[("search.moody", "breaker_open")]] * 2


@pytest.mark.slow
def test_status_shows_what_is_not_closed(moody: Moody) -> None:
    moody.open_moody()

    def status() -> str:
        called = command("status", "--json", **moody.environment)
        called["args"] = [
            sys.executable,
            "-c",
            f"{moody.preload}\nimport runpy; runpy.run_module('cli', run_name='__main__')",
            *called["args"][3:],
        ]
        done = subprocess.run(**called, capture_output=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
        return str(done.stdout)

    (breaker,) = json.loads(status())["breakers"]
    assert (breaker["name"], breaker["state"], breaker["failures"], breaker["reason"]) == (
        "moody",
        "open",
        3,
        "error",
    )
