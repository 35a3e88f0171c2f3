"""Stored messages of this wire version, of the next one, and of an unknown one.

`stored_messages/v1` was taken from the queues of version 1 and never changes.  `v2` is the same with fields that version
1 does not have, as the next version may add; `v99` also renames some fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from chorale_client import Answer
from chorale_client.keys import OUTBOX, entry_key
from chorale_client.wire_reader import placeholder_request, read_request
from redis import Redis

from ledger.protocol import BranchDispatch, Chord
from models.branch_result import BranchResult
from records.audit.drainer import Drainer
from records.audit.queries import show
from records.database import open_database, upgrade
from tests.support.ledger.single_steps import SingleSteps
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

STORED = Path(__file__).parent / "stored_messages"
IGNORED = (
    "request: questions.0.dialect: unknown to this version, ignored",
    "request: tone: unknown to this version, ignored",
)


def stored(v: int, name: str) -> bytes:
    return (STORED / f"v{v}" / f"{name}.json").read_bytes()


def document(v: int, name: str) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(stored(v, name))
    return fields


@pytest.fixture(scope="module")
def pipeline() -> Iterator[RunningPipeline]:
    served = ["chorale.retrieve", "chorale.bm25", "chorale.fusion", "chorale.index"]
    # A sweeper would plan a request that was accepted 0.1 s ago, before the test has stored its own text or plan.
    environment = {"CHORALE_BREAKER_FAILURES": "0", "CHORALE_SWEEPER_THREADS": "false"}
    with (
        RedisServer() as server,
        RunningPipeline(server, queues=served, environment=environment) as running,
    ):
        running.index()
        yield running


def deliver(pipeline: RunningPipeline, v: int, name: str) -> None:
    message = stored(v, name)
    pipeline.redis.lpush(json.loads(message)["properties"]["delivery_info"]["routing_key"], message)


def answered(pipeline: RunningPipeline, request_id: str) -> Answer:
    """Returns the answer once there is one; no caller waits, so no caller ends the request."""

    def result() -> Any:
        """None while the request runs."""
        meta = pipeline.redis.get(f"celery-task-meta-{request_id}")
        return json.loads(cast("bytes", meta or b"{}")).get("result")

    return Answer.model_validate(until(result))


def accepted(pipeline: RunningPipeline, v: int, request_id: str, **options: Any) -> None:
    """Accept a request whose entry a client of that version wrote."""
    request = {**document(v, "request"), "request_id": request_id, **options}
    stands_in = placeholder_request(request_id, {}).model_copy(update={"timeout_s": 20.0})
    pipeline.resources.callers_ledger.accept(stands_in)
    pipeline.redis.hset(entry_key(request_id), "request", json.dumps(request))


def first_hit(answer: Answer) -> list[str]:
    return [hit.document_id for hit in answer.hits[:1]]


@pytest.mark.parametrize("v", [1, 2])
def test_stored_calls_for_an_accepted_request_and_with_a_whole_one_are_served(
    pipeline: RunningPipeline, v: int
) -> None:
    accepted(pipeline, v, f"stored-v{v}-by-id")
    for how in ("by-id", "whole"):
        deliver(pipeline, v, f"retrieve-{how}")
        answer = answered(pipeline, f"stored-v{v}-{how}")
        assert (answer.status, first_hit(answer)) == ("complete", ["error"])
        assert set(answer.warnings) == set(IGNORED if v == 2 else ())


def text_of(pipeline: RunningPipeline, request_id: str) -> bytes:
    """The request as it stands in the ledger, which a plan's signature covers."""
    text = pipeline.redis.hget(entry_key(request_id), "request")
    assert isinstance(text, bytes)
    return text


def planned(pipeline: RunningPipeline, v: int, plan_of: int) -> str:
    """Enters a request with a stored plan in the ledger; its part and its callback are the stored messages.

    A second part, which the test reports, brings the stored callback: a worker would bring its own.
    """
    request_id = f"stored-v{v}-parts"
    accepted(pipeline, v if v < 99 else 1, request_id)
    ledger = SingleSteps(pipeline.redis, signer=pipeline.resources.signer)
    parts = [
        BranchDispatch("bm25", "chorale.bm25", 20_000, 20_000, message=stored(v, "search")),
        BranchDispatch("of_the_test", "chorale.of_the_test", 20_000, 20_000),
    ]
    chord = Chord(text_of(pipeline, request_id), stored(plan_of, "plan"), parts, 60, 160)
    assert ledger.plan(request_id, chord) == "planned"
    until(lambda: pipeline.redis.hget(entry_key(request_id), "status:bm25"))
    reported = ledger.report(
        request_id, "of_the_test", BranchResult("of_the_test", "empty"), callback=stored(v, "fuse")
    )
    assert reported == "joined"
    return request_id


@pytest.mark.parametrize("v", [1, 2])
def test_a_stored_part_and_a_stored_callback_of_a_stored_plan_are_served(
    pipeline: RunningPipeline, v: int
) -> None:
    answer = answered(pipeline, planned(pipeline, v, plan_of=v))
    assert (answer.status, first_hit(answer)) == ("complete", ["error"])


@pytest.mark.parametrize("v", [1, 2])
def test_stored_documents_to_index_are_indexed(pipeline: RunningPipeline, v: int) -> None:
    deliver(pipeline, v, "index")
    until(lambda: pipeline.resources.generations.in_redis(f"stored-v{v}"))
    answer = pipeline.client().retrieve(
        "tea", namespace=f"stored-v{v}", branches=["bm25"], timeout_s=20, cache="bypass"
    )
    assert first_hit(answer) == ["tea"]


def test_a_message_of_an_unknown_version_is_refused_and_ends_no_worker(pipeline: RunningPipeline) -> None:
    accepted(pipeline, 99, "stored-v99-by-id")
    for name in ("retrieve-by-id", "retrieve-whole", "index"):
        deliver(pipeline, 99, name)
    part = answered(pipeline, planned(pipeline, 99, plan_of=1))
    for request_id in ("stored-v99-by-id", "stored-v99-whole"):
        answer = answered(pipeline, request_id)
        assert (answer.status, [one.reason for one in answer.degraded]) == ("failed", ["not_configured"])
        assert "wire version 99, where versions 1 and 2 are read" in answer.degraded[0].detail
    assert [(one.where, one.reason) for one in part.degraded] == [("search.bm25", "not_configured")]
    assert "wire version 99" in part.degraded[0].detail
    still = pipeline.client().retrieve("ERR-4711", branches=["bm25"], timeout_s=20, cache="bypass")
    assert (still.status, first_hit(still)) == ("complete", ["error"])
    assert pipeline.resources.generations.in_redis("stored-v99") is None
    assert [name for name, process in pipeline.processes.items() if process.poll() is not None] == []


def test_an_unreadable_plan_or_request_ends_with_an_answer_that_says_so(
    pipeline: RunningPipeline,
) -> None:
    for request_id, request_of, plan_of in (("odd-plan", 1, 99), ("odd-request", 99, 1)):
        accepted(pipeline, request_of, request_id)
        text = text_of(pipeline, request_id)
        pipeline.resources.ledger.plan(request_id, Chord(text, stored(plan_of, "plan"), [], 60, 160))
        pipeline.app.fanout.send_fuse(request_id)
        answer = answered(pipeline, request_id)
        assert (answer.status, [one.reason for one in answer.degraded]) == ("failed", ["not_configured"])
        assert answer.degraded[0].detail.startswith("of another version: ")


@pytest.mark.parametrize("v", [1, 2, 99])
def test_a_stored_answer_and_a_stored_branch_result_are_read(v: int) -> None:
    answer = Answer.model_validate(document(v, "result")["result"])
    assert (answer.v, answer.status, first_hit(answer)) == (v, "complete", ["error"])
    assert answer.stages[-1].status == ("ok" if v == 1 else "dreamt")
    branch_result = BranchResult.from_wire("bm25", json.dumps(document(v, "outbox")["result:bm25"]))
    assert (branch_result.status, branch_result.generation) == ("ok", 1)
    assert [hit.document_id for hit in branch_result.rankings[0].hits] == ["error"]


@pytest.mark.parametrize("v", [1, 2, 99])
def test_a_stored_end_is_audited(redis_client: Redis, tmp_path: Path, v: int) -> None:
    fields = document(v, "outbox")
    redis_client.xadd(
        OUTBOX, {name: value if isinstance(value, str) else json.dumps(value) for name, value in fields.items()}
    )  # fmt: skip
    url = f"sqlite:///{tmp_path}/audit.db"
    upgrade(url)
    engine = open_database(url)
    assert Drainer(redis_client, engine, keep_texts=True).drain_once(100) == 1
    row = show(engine, f"stored-v{v}-ended")
    engine.dispose()
    assert row is not None
    assert (row.status, row.ended_by, [branch.branch for branch in row.branches]) == (
        "complete",
        "fusion",
        ["bm25"],
    )
    assert [hit.document_id for question in row.questions for hit in question.hits] == (
        ["error"] if v < 99 else []
    )


def test_a_request_of_the_next_version_is_read_without_its_new_fields() -> None:
    read = read_request(stored(2, "request"))
    assert read.warnings == IGNORED
    assert read.request == read_request({**document(1, "request"), "request_id": "stored-v2-parts"}).request


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"v": 1}, "questions.0.dialect: unknown field; .*tone: unknown field"),
        ({"top_k": "many"}, "top_k: Input should be a valid integer"),
        ({"v": 3}, "v: wire version 3, where versions 1 and 2 are read"),
        ({"v": "2"}, "v: wire version '2', where"),
        ({"v": None}, "v: wire version None, where"),
    ],
    ids=str,
)
def test_only_unknown_fields_of_the_next_version_are_tolerated(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_request({**document(2, "request"), **changed})
