"""What a caller's Redis login writes makes workers do nothing beyond the caller's own requests."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from chorale_client import Answer
from chorale_client.keys import ENTRY, QUARANTINE, WAKEUPS, entry_key
from chorale_client.wire_names import QUEUE_RETRIEVE, TASK_DELETE, TASK_RETRIEVE

from tests.faults.test_bad_messages import body, message
from tests.support.faults.moments import end_without_fusion
from tests.support.pipelines.branch_faults import branch_result_of
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.waiting import until

Fields = dict[Any, Any]


@contextmanager
def paused(pipeline: RunningPipeline, name: str) -> Iterator[None]:
    pipeline.pause(name)
    try:
        yield
    finally:
        pipeline.resume(name)


def a_question() -> str:
    """A new question, which no cache has."""
    return f"who pays for repairs {uuid.uuid4().hex}?"


def send(pipeline: RunningPipeline, text: str, **options: Any) -> str:
    """A request whose branch `bm25` waits for its worker."""
    request_id = pipeline.client().send(text, branches=["bm25"], timeout_s=20, **options)
    until(lambda: pipeline.redis.hget(entry_key(request_id), "state") == b"planned")
    return request_id


def write(pipeline: RunningPipeline, request_id: str, **fields: str | bytes) -> None:
    """Writes fields of the entry and makes the request due now; a caller's login can do this."""
    written: Fields = dict(fields)
    pipeline.redis.hset(entry_key(request_id), mapping=written)
    pipeline.redis.zadd(WAKEUPS, {request_id: 0})


def answer_of(pipeline: RunningPipeline, request_id: str) -> Answer:
    return pipeline.client().answer(request_id, wait_s=30)


def reasons(answer: Answer) -> list[tuple[str, str]]:
    return [(one.where, one.reason) for one in answer.degraded]


def forged_branch_result() -> Fields:
    return {"result:bm25": branch_result_of("bm25", "bread").to_wire(), "status:bm25": b"ok", "left": b"0"}


def test_a_forged_answer_of_a_branch_is_a_failed_branch_and_nobody_else_sees_it(
    faulty: RunningPipeline,
) -> None:
    question = a_question()
    with paused(faulty, "chorale.bm25"):
        poisoned = send(faulty, question)
        write(faulty, poisoned, **forged_branch_result())
        answer = answer_of(faulty, poisoned)
    assert (answer.status, answer.hits, reasons(answer)) == ("failed", (), [("search.bm25", "forged")])
    honest = faulty.client().retrieve(question, branches=["bm25"], timeout_s=20)
    assert (honest.status, honest.cached) == ("complete", False)
    assert honest.hits[0].document_id == "repairs"


def test_a_forged_answer_does_not_answer_those_who_asked_the_same(faulty: RunningPipeline) -> None:
    question = a_question()
    with paused(faulty, "chorale.bm25"):
        leader = send(faulty, question)
        follower = faulty.client().send(question, branches=["bm25"], timeout_s=21)
        until(lambda: faulty.redis.hget(entry_key(follower), "state") == b"following")
        write(faulty, leader, **forged_branch_result())
        assert answer_of(faulty, leader).status == "failed"
    answer = answer_of(faulty, follower)
    assert (answer.status, answer.hits[0].document_id) == ("complete", "repairs")


def test_a_forged_plan_is_neither_searched_nor_fused(faulty: RunningPipeline) -> None:
    with paused(faulty, "chorale.bm25"):
        request_id = send(faulty, a_question())
        plan = json.loads(faulty.redis.hget(entry_key(request_id), "plan") or b"")
        plan["branches"][0]["depth"] = 3
        write(faulty, request_id, plan=json.dumps(plan))
    answer = answer_of(faulty, request_id)
    assert (answer.status, reasons(answer)) == ("failed", [("plan", "forged")])


def test_a_request_that_was_changed_after_it_was_planned_is_not_cached_under_the_other_question(
    faulty: RunningPipeline,
) -> None:
    other = a_question()
    with paused(faulty, "chorale.bm25"):
        request_id = send(faulty, a_question())
        request = json.loads(faulty.redis.hget(entry_key(request_id), "request") or b"")
        request["questions"][0]["text"] = other
        write(faulty, request_id, request=json.dumps(request))
    assert answer_of(faulty, request_id).status == "failed"
    assert not faulty.client().retrieve(other, branches=["bm25"], timeout_s=20).cached


def test_a_forged_entry_makes_the_sweeper_push_no_message_to_another_queue(faulty: RunningPipeline) -> None:
    plan = {"branches": [{"name": "bm25", "kind": "x", "queue": "app"}, {"name": "y", "queue": "app"}]}
    far = str(int(time.time() * 1000) + 60_000)
    fields = {"state": "planned", "plan": json.dumps(plan), "left": "2", "join_at": far}
    fields |= {"finish_reserve": "60", "fusion_reserve": "160"}
    for branch in ("bm25", "y"):
        fields |= {f"limit:{branch}": far, f"resend:{branch}": "1"}
    with paused(faulty, "chorale.bm25"):
        request_id = send(faulty, a_question())
        write(faulty, request_id, **fields)
        # The sweeper has checked the parts once it has set its next moment for them.
        until(lambda: faulty.redis.zscore(WAKEUPS, request_id))
        write(faulty, request_id, finish_reserve="20000")
        answer = answer_of(faulty, request_id)
    assert (answer.status, reasons(answer)) == ("failed", [("plan", "forged")])
    assert not faulty.redis.exists("app")


def test_an_entry_without_its_fields_keeps_no_other_request_from_its_end(faulty: RunningPipeline) -> None:
    faulty.redis.hset(f"{ENTRY}poison", "state", "planned")
    faulty.redis.zadd(WAKEUPS, {"poison": 0})
    with paused(faulty, "chorale.fusion"):
        request_id = faulty.client().send("bread", branches=["bm25"], cache="bypass", timeout_s=20)
        end_without_fusion(faulty, request_id)
        answer = answer_of(faulty, request_id)
    assert answer.hits[0].document_id == "bread"
    assert faulty.redis.hget(QUARANTINE, "poison") == b"no request"


def test_workers_drop_each_message_on_the_queue_of_requests_that_is_not_a_request(
    faulty: RunningPipeline,
) -> None:
    faulty.index({"kept": ("Kept", "bread that is kept")}, namespace="foreign")
    whole = {"namespace": "foreign", "whole_namespace": True}
    deletion = message(body(whole), {"task": TASK_DELETE, "id": "foreign.x"})
    deletions = [{"task": TASK_DELETE, "args": [], "kwargs": {"namespace": "foreign"}}, [[]]]
    builtin = message(json.dumps([deletions, {}, {}]).encode(), {"task": "celery.starmap", "id": "x"})
    faulty.redis.lpush(QUEUE_RETRIEVE, deletion, builtin)
    until(lambda: not faulty.redis.llen(QUEUE_RETRIEVE))
    options: dict[str, Any] = {"namespace": "foreign", "branches": ["bm25"], "timeout_s": 20}
    answer = faulty.client().retrieve("bread", cache="bypass", **options)
    assert [hit.document_id for hit in answer.hits] == ["kept"]


def test_a_message_with_the_id_of_a_part_does_not_count_as_a_failure_of_its_branch(
    faulty: RunningPipeline,
) -> None:
    """Five failures of this kind would open the branch's breaker for everybody."""
    with paused(faulty, "chorale.bm25"):
        request_id = send(faulty, a_question(), cache="bypass")
        for sent in (
            message(body({}, chord={"task": "x"}), {"task": TASK_RETRIEVE, "id": f"{request_id}:bm25"}),
            message(b"{}", {"task": TASK_RETRIEVE, "id": f"{request_id}:bm25"}),
            message(body({}), {"task": "x", "id": f"{request_id}:bm25"}),
        ):
            faulty.redis.lpush(QUEUE_RETRIEVE, sent)
        until(lambda: not faulty.redis.llen(QUEUE_RETRIEVE))
        # The planner takes it after the others.
        assert faulty.client().retrieve(a_question(), branches=["fickle"], timeout_s=20).hits
        assert faulty.redis.hget(entry_key(request_id), "status:bm25") is None
    assert answer_of(faulty, request_id).status == "complete"
