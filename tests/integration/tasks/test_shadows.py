"""A request's shadow: searched by the bulk workers after the request has ended, compared with it, and erased with it."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import pytest
from chorale_client.keys import BREAKER, DURATIONS, METRICS, OVERLOAD, SERVED, entry_key
from chorale_client.wire_names import QUEUE_BULK
from pydantic_core import from_json

from api.feedback import record
from audit.database import open_database, upgrade
from audit.drainer import Drainer
from audit.queries import last, show
from config.declarations import Shadow
from config.pipeline_reader import DEFAULT_FILE
from judgements.feedback import Event
from ledger import breakers
from ledger.outcomes import Outcome
from models.audit_tables import RequestRow
from tasks.sweeping import shadows as sending
from tasks.sweeping.request_events import listeners, notify
from tasks.sweeping.shadows import Shadows
from tests.support.command_line import in_process
from tests.support.pipelines.one_process import OneProcess
from tests.support.servers.redis_server import RedisServer

QUESTION = "Who pays when the meter breaks?"
DECLARED = """
[shadow]
a = "bm25"
b = "rrf"
share = 1
"""
"""Each plain request that words alone answer is searched by all branches, too."""


class Shadowed(OneProcess):
    """The sweeper process and a bulk worker are the test's own process; a bulk worker is said to run."""

    def __enter__(self) -> Shadowed:
        super().__enter__()
        self.redis.set(SERVED + QUEUE_BULK, "1")
        self.index()
        upgrade(self.resources.settings.audit_database_url)
        self.engine = open_database(self.resources.settings.audit_database_url)
        declared = self.resources.pipeline.shadow
        assert declared == Shadow(a="bm25", b="rrf", share=1)
        self.shadows = Shadows(self.app, declared)
        return self

    def __exit__(self, *error: object) -> None:
        self.engine.dispose()
        super().__exit__(*error)

    def end(self, request_id: str, **options: object) -> None:
        """A request under A is answered, not from the cache, and its rows are written."""
        self.ask(f"{QUESTION} {request_id}", request_id=request_id, configuration="bm25", **options)
        self.write()

    def write(self) -> None:
        hearing = partial(notify, [*listeners(self.resources), self.shadows.ended])
        drainer = Drainer(self.redis, self.engine, keep_texts=True, on_written=hearing)
        while drainer.drain_once(1):
            pass

    def waiting(self) -> int:
        """Messages for the bulk workers, after what is due was sent."""
        self.shadows.look()
        return int(self.redis.llen(QUEUE_BULK))

    def answer_shadows(self) -> None:
        self.shadows.look()
        self.work_in_bulk()
        self.write()

    def work_in_bulk(self) -> None:
        """Does what waits for the bulk workers, as Celery would call its tasks there."""
        while (raw := cast("bytes | None", self.redis.rpop(QUEUE_BULK))) is not None:
            message = from_json(raw)
            _, arguments, _ = from_json(b64decode(message["body"]))
            self.app.tasks[message["headers"]["task"]](**arguments)

    def figures_of_callers(self) -> dict[str, Any]:
        """The metrics, and how many times of a branch are known, from which hedges follow."""
        durations = {key.decode(): self.redis.llen(key) for key in self.redis.scan_iter(DURATIONS + "*")}
        return {**durations, METRICS: self.redis.hgetall(METRICS)}

    def row(self, request_id: str) -> RequestRow | None:
        return show(self.engine, request_id)

    def run(self, *arguments: str) -> str:
        called = in_process(*arguments, **self.environment)
        assert called.returncode == 0, called.stderr
        return called.stdout


@pytest.fixture
def shadowed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shadowed]:
    file = tmp_path_factory.mktemp("shadowed") / "pipeline.toml"
    file.write_text(DEFAULT_FILE.read_text(encoding="utf-8") + DECLARED, encoding="utf-8")
    with RedisServer() as server, Shadowed(server, pipeline_file=file) as pipeline:
        yield pipeline


def test_a_shadow_is_searched_by_bulk_workers_once_its_request_has_ended(shadowed: Shadowed) -> None:
    shadowed.end("t.acme.1", correlation_id="customer-17", filters={"source_type": {"exists": True}}, top_k=3)
    figures = shadowed.figures_of_callers()
    queues = shadowed.resources.pipeline.request_queues
    assert shadowed.waiting() == 3
    assert [shadowed.redis.llen(queue) for queue in queues] == [0] * len(queues)
    shadowed.work(*queues)
    assert shadowed.waiting() == 3
    shadowed.answer_shadows()
    assert shadowed.figures_of_callers() == figures
    request, shadow = shadowed.row("t.acme.1"), shadowed.row("t.acme.1.shadow")
    assert request is not None
    assert shadow is not None
    assert (request.configuration, shadow.configuration) == ("bm25", "rrf")
    assert (shadow.status, shadow.ended_by) == ("complete", "fusion")
    assert {branch.branch for branch in shadow.branches} == {"bm25", "vector", "hyde"}
    assert (shadow.namespace, shadow.correlation_id) == (request.namespace, "customer-17")
    assert shadow.options["filters"] == request.options["filters"] == {"source_type": {"exists": True}}
    assert [question.text for question in shadow.questions] == [f"{QUESTION} t.acme.1"]
    # As if somebody had asked B.
    alone = shadowed.ask(
        f"{QUESTION} t.acme.1",
        configuration="rrf",
        cache="bypass",
        filters={"source_type": {"exists": True}},
        top_k=3,
    )
    hits = [hit.document_id for question in shadow.questions for hit in question.hits]
    assert hits == [hit.document_id for hit in alone.hits]


def test_a_shadow_has_no_shadow_and_the_same_end_told_twice_makes_one(shadowed: Shadowed) -> None:
    shadowed.end("1")
    (drawn,) = shadowed.shadows._drawn
    shadowed.answer_shadows()
    shadowed.shadows._drawn.append(drawn)
    assert shadowed.waiting() == 0
    shadowed.write()
    assert {row.request_id for row in last(shadowed.engine, 10)} == {"1", "1.shadow"}


def test_nothing_is_sent_without_a_bulk_worker_or_while_anybody_waits(
    shadowed: Shadowed, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis = shadowed.redis
    monkeypatch.setattr(breakers, "ALL_WELL_FOR_S", 0)
    redis.delete(SERVED + QUEUE_BULK)
    shadowed.end("no-worker")
    assert shadowed.waiting() == 0
    redis.set(SERVED + QUEUE_BULK, "1")
    assert shadowed.waiting() == 0  # nor later

    shadowed.end("late")
    redis.hset(OVERLOAD, mapping={"length:chorale.vector": 3, "age_ms:chorale.vector": 101})
    assert shadowed.waiting() == 0
    redis.delete(OVERLOAD)

    shadowed.end("broken")
    for _ in range(shadowed.resources.settings.breaker_failures):
        shadowed.resources.breakers.count("some", [Outcome("vector", "failed", "timeout")])
    assert shadowed.waiting() == 0
    redis.delete(BREAKER + "vector")

    monkeypatch.setattr(sending, "MOST_WAITING", 4)
    for number in range(4):
        shadowed.end(f"many-{number}")
    assert shadowed.waiting() == 6  # three messages of each of two


def test_the_id_of_a_shadow_under_another_configuration_is_any_request_s(shadowed: Shadowed) -> None:
    shadowed.submit(QUESTION, request_id="mine.shadow", configuration="scores")
    assert shadowed.redis.llen(QUEUE_BULK) == 0
    shadowed.submit(QUESTION, request_id="yours.shadow", configuration="rrf")
    assert shadowed.redis.llen(QUEUE_BULK) == 3
    assert b'"chorale.bulk"' in (shadowed.redis.hget(entry_key("yours.shadow"), "plan") or b"")


def test_pairs_are_compared_from_the_trail(shadowed: Shadowed) -> None:
    compare = ("compare", "--live", "bm25", "rrf")
    assert from_json(shadowed.run(*compare, "--json"))["shadow"] is None
    for number in range(3):
        shadowed.end(f"{number}")
        shadowed.answer_shadows()
    request, shadow = shadowed.row("0"), shadowed.row("0.shadow")
    assert request is not None
    assert shadow is not None
    pages = [[hit.document_id for hit in row.questions[0].hits] for row in (request, shadow)]
    ours, theirs = pages
    only_theirs = next(document for document in theirs if document not in ours)
    event = Event(request_id="0", action="grade", document_id=ours[0], grade=3)
    # A judge may also see the hits of the shadow; the question is the same.
    other = Event(request_id="0.shadow", action="grade", document_id=only_theirs, grade=1)
    record(shadowed.engine, [event, other], {"0": request, "0.shadow": shadow}, "shop", "user")
    compared = from_json(shadowed.run(*compare, "--json"))["shadow"]
    assert (compared["pairs"], compared["whole"]) == (3, 3)
    assert compared["changed_first"] == float(ours[0] != theirs[0])
    assert compared["overlap"] == pytest.approx(len({*ours} & {*theirs}) / max(len(ours), len(theirs)))
    assert (compared["judged"]["questions"], compared["judged"]["gain"]["questions"]) == (1, 1)
    assert min(compared["median_ms"]) > 0
    shown = shadowed.run(*compare)
    assert "3 requests under bm25 have a shadow under rrf; of the 3 with two complete answers" in shown
    assert "users saw A only, so clicks decide nothing here" in shown
    assert "nDCG@10 of 1 judged questions, B - A:" in shown
    assert "shared their page" not in shown


@pytest.mark.parametrize("option", ["--request", "--correlation"])
def test_a_request_is_erased_with_its_shadow(shadowed: Shadowed, option: str) -> None:
    shadowed.end("erased-1", correlation_id="customer-17")
    shadowed.answer_shadows()
    shadowed.end("stays")
    shadowed.answer_shadows()
    # The beginning of the id is that of the shadow's, too.
    value = {"--request": "erased", "--correlation": "customer-17"}[option]
    assert from_json(shadowed.run("audit", "erase", option, value, "--yes", "--json"))["removed"] == 2
    assert {row.request_id for row in last(shadowed.engine, 10)} == {"stays", "stays.shadow"}


def test_erasing_says_that_a_shadow_still_runs_and_one_on_its_way_is_erased(shadowed: Shadowed) -> None:
    shadowed.end("erased")
    assert shadowed.waiting() == 3
    erase = ("audit", "erase", "--request", "erased", "--yes", "--json")
    called = in_process(*erase, **shadowed.environment)
    assert called.returncode == 8
    assert "1 shadow of these requests still run: call this again in a minute" in called.stderr
    shadowed.work_in_bulk()
    assert from_json(shadowed.run(*erase))["removed_from_outbox"] == 1
    shadowed.write()
    assert list(last(shadowed.engine, 10)) == []
