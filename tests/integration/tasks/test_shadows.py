"""A request's shadow: searched by the bulk workers after the request has ended, compared with it, and erased with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from chorale_client.keys import BREAKER, OVERLOAD, SERVED, entry_key
from chorale_client.wire_names import QUEUE_BULK
from pydantic_core import from_json

from api.feedback import record
from ledger import breakers
from ledger.breaker_outcomes import Outcome
from models.tables.audit import AuditTable
from records.audit.queries import last
from records.judgements.feedback import Event
from tasks.sweeping import shadows as sending
from tasks.worker.warming import warm_models
from tests.integration.tasks.test_reranking import PLAIN, RERANKER
from tests.support.command_line import in_process
from tests.support.models.tiny_cross_encoder import write_tiny_cross_encoder
from tests.support.pipelines.pipeline_files import BM25_ALONE
from tests.support.pipelines.shadowed import QUESTION, SHADOW, Shadowed, with_shadow
from tests.support.servers.redis_server import RedisServer


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shadowed]:
    file = with_shadow(tmp_path_factory.mktemp("shadowed"))
    with RedisServer() as server, Shadowed(server, pipeline_file=file) as started:
        yield started


@pytest.fixture
def shadowed(pipeline: Shadowed) -> Shadowed:
    """Nothing waits, and the trail is empty.  Requests of different tests have different ids, and so different texts."""
    pipeline.write()
    pipeline.redis.delete(QUEUE_BULK, *pipeline.resources.pipeline.request_queues)
    with pipeline.engine.begin() as connection:
        for table in reversed(AuditTable.metadata.sorted_tables):
            connection.execute(table.delete())
    return pipeline


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


def test_a_shadow_has_no_shadow_and_the_same_end_received_twice_makes_one(shadowed: Shadowed) -> None:
    shadowed.end("told-twice")
    (drawn,) = shadowed.shadows._drawn
    shadowed.answer_shadows()
    shadowed.shadows._drawn.append(drawn)
    assert shadowed.waiting() == 0
    shadowed.write()
    assert {row.request_id for row in last(shadowed.engine, 10)} == {"told-twice", "told-twice.shadow"}


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


def test_the_bulk_workers_load_the_reranker_of_b_and_rerank_the_shadow(tmp_path: Path) -> None:
    model, file = write_tiny_cross_encoder(tmp_path / "tiny"), tmp_path / "pipeline.toml"
    reranked = RERANKER.format(name="tiny", configuration="reranked", model=model, budget_ms=10_000)
    file.write_text(BM25_ALONE + PLAIN + reranked + SHADOW.format(a="plain", b="reranked"))
    with RedisServer() as server, Shadowed(server, pipeline_file=file) as pipeline:
        # A reranker that is not loaded reranks nothing within its budget.
        warm_models(pipeline.resources, [QUEUE_BULK], pipeline.resources.namespaces())
        pipeline.end("1")
        pipeline.answer_shadows()
        request, shadow = pipeline.row("1"), pipeline.row("1.shadow")
    assert request is not None
    assert shadow is not None
    reranks = [
        [line["n_out"] for line in row.stages if line["stage"] == "rerank"] for row in (request, shadow)
    ]
    assert reranks == [[], [len(shadow.questions[0].hits)]]
    assert (shadow.status, shadow.configuration) == ("complete", "reranked")


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
        shadowed.end(f"pair-{number}")
        shadowed.answer_shadows()
    request, shadow = shadowed.row("pair-0"), shadowed.row("pair-0.shadow")
    assert request is not None
    assert shadow is not None
    ours, theirs = ([hit.document_id for hit in row.questions[0].hits] for row in (request, shadow))
    only_theirs = next(document for document in theirs if document not in ours)
    event = Event(request_id="pair-0", action="grade", document_id=ours[0], grade=3)
    # A judge may also see the hits of the shadow; the question is the same.
    other = Event(request_id="pair-0.shadow", action="grade", document_id=only_theirs, grade=1)
    record(shadowed.engine, [event, other], {"pair-0": request, "pair-0.shadow": shadow}, "shop", "user")
    compared = from_json(shadowed.run(*compare, "--json"))["shadow"]
    assert (compared["pairs"], compared["whole"]) == (3, 3)
    assert compared["changed_first"] == float(ours[0] != theirs[0])
    assert compared["overlap"] == pytest.approx(len({*ours} & {*theirs}) / max(len(ours), len(theirs)))
    assert (compared["judged"]["questions"], compared["judged"]["gain"]["questions"]) == (1, 1)
    assert min(compared["median_ms"]) > 0
    output = shadowed.run(*compare)
    assert "3 requests under bm25 have a shadow under rrf; of the 3 with two complete answers" in output
    assert "users saw A only, so clicks decide nothing here" in output
    assert "nDCG@10 of 1 judged questions, B - A:" in output
    assert "shared their page" not in output


# The beginning of the id is that of the shadow's, too.
@pytest.mark.parametrize(("option", "value"), [("--request", "gone"), ("--correlation", "customer-18")])
def test_a_request_is_erased_with_its_shadow(shadowed: Shadowed, option: str, value: str) -> None:
    stays = f"stays{option}"
    for request_id, customer in ((f"gone{option}", "customer-18"), (stays, "customer-19")):
        shadowed.end(request_id, correlation_id=customer)
        shadowed.answer_shadows()
    assert from_json(shadowed.run("audit", "erase", option, value, "--yes", "--json"))["removed"] == 2
    assert {row.request_id for row in last(shadowed.engine, 10)} == {stays, f"{stays}.shadow"}


def test_a_request_that_is_erased_before_its_shadow_was_sent_has_none(shadowed: Shadowed) -> None:
    shadowed.end("unsent")
    erase = ("audit", "erase", "--request", "unsent", "--yes", "--json")
    assert from_json(shadowed.run(*erase))["removed"] == 1
    assert shadowed.waiting() == 0


def test_erasing_says_that_a_shadow_still_runs_and_one_on_its_way_is_erased(shadowed: Shadowed) -> None:
    shadowed.end("on-its-way")
    assert shadowed.waiting() == 3
    erase = ("audit", "erase", "--request", "on-its-way", "--yes", "--json")
    called = in_process(*erase, **shadowed.environment)
    assert called.returncode == 8
    assert "1 shadow of these requests still run: call this again in a minute" in called.stderr
    shadowed.work_in_bulk()
    assert from_json(shadowed.run(*erase))["removed_from_outbox"] == 1
    shadowed.write()
    assert list(last(shadowed.engine, 10)) == []
