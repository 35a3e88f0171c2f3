"""A message that comes twice, too early or too late, or is unreadable, makes no difference to a user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from chorale_client import Request, make_request
from chorale_client.keys import entry_key
from chorale_client.protocol_constants import PROTOCOL
from chorale_client.wire_names import QUEUE_RETRIEVE, TASK_FUSE, TASK_RETRIEVE, TASK_SEARCH

from models.plan import Plan
from tasks.celery_internals.message_template import Template
from tasks.celery_internals.result_backend import part_id
from tasks.request.retrieve import submit
from tests.support.faults.observers import Seen, seen, seen_of, unchanged
from tests.support.pipelines.branch_faults import DELIVERIES, QUEUE, UNKNOWN
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.waiting import until

BM25 = "chorale.bm25"
OPTIONS: dict[str, Any] = {"timeout_s": 20, "include": ["ids", "explanation"]}


@contextmanager
def unjoined(pipeline: RunningPipeline, branch: str) -> Iterator[Request]:
    """Yields a request of bm25 and `branch` that cannot be joined, because the worker of bm25 is paused."""
    pipeline.pause(BM25)
    try:
        request = make_request("ERR-4711", branches=["bm25", branch], cache="bypass", **OPTIONS)
        submit(pipeline.resources, pipeline.app.fanout, request)
        yield request
    finally:
        pipeline.resume(BM25)


def message_of(pipeline: RunningPipeline, request: Request, branch: str) -> bytes:
    """Returns the part's message as it was published."""
    plan = Plan.model_validate_json(pipeline.redis.hget(entry_key(request.request_id), "plan") or b"")
    planned = next(part for part in plan.branches if part.name == branch)
    fanout = pipeline.app.fanout
    callback = fanout._fuse_signature(request.request_id)
    message: bytes = fanout._part_message(request.request_id, planned, callback)
    return message


def deliveries(pipeline: RunningPipeline, request: Request) -> int:
    """Returns how often the branch `fickle` was delivered; the sweeper may send a part again that waits long."""
    return int(pipeline.redis.get(DELIVERIES + request.request_id) or 0)


def has_status(pipeline: RunningPipeline, request: Request, branch: str, status: bytes) -> bool:
    return pipeline.redis.hget(entry_key(request.request_id), f"status:{branch}") == status


def is_whole_with(seen: Seen, branch: str, documents: dict[str, int]) -> None:
    """Checks that the request is complete and that these documents of the branch, by rank, were counted."""
    assert (seen.status, seen.missing) == ("complete", [])
    for name, expected in {branch: documents, "bm25": {"error": 1}}.items():
        hits = [hit for hit in seen.answer.hits if name in hit.branches]
        assert {hit.document_id: hit.branches[name].rank for hit in hits} == expected
    assert sorted(row.branch for row in seen.audit.branches) == sorted(["bm25", branch])


def sees_a_message_behind_it(pipeline: RunningPipeline) -> None:
    """Checks that the faulty branches' worker has emptied its queue: it answers another request."""
    probe = pipeline.client().retrieve("bread", branches=["fickle"], cache="bypass", timeout_s=20)
    assert probe.status == "complete"


@pytest.mark.parametrize("times", [1, 9])
def test_a_part_delivered_again_with_different_content_counts_once(
    faulty: RunningPipeline, times: int
) -> None:
    with unjoined(faulty, "fickle") as request:
        until(lambda: has_status(faulty, request, "fickle", b"ok"))
        faulty.redis.lpush(QUEUE, *[message_of(faulty, request, "fickle")] * times)
        sees_a_message_behind_it(faulty)
        assert deliveries(faulty, request) >= 1 + times

    is_whole_with(seen_of(faulty, request), "fickle", {"bread": 1})


def test_a_part_or_a_callback_delivered_ten_times_after_the_end_changes_nothing(
    faulty: RunningPipeline,
) -> None:
    with unjoined(faulty, "fickle") as request:
        message = message_of(faulty, request, "fickle")
    ended = seen_of(faulty, request)

    with unchanged(faulty, ended):
        faulty.redis.lpush(QUEUE, *[message] * 10)
        for _ in range(10):
            faulty.app.fanout.send_fuse(request.request_id)
        sees_a_message_behind_it(faulty)

    is_whole_with(ended, "fickle", {"bread": 1})
    assert deliveries(faulty, request) >= 11


@pytest.mark.parametrize("is_whole", [False, True], ids=["of an id", "with the whole request"])
def test_a_request_that_is_sent_ten_times_is_planned_and_answered_once(
    faulty: RunningPipeline, is_whole: bool
) -> None:
    request = make_request("ERR-4711", branches=["bm25", "fickle"], cache="bypass", **OPTIONS)
    arguments = (
        {"request": request.model_dump(mode="json")} if is_whole else {"request_id": request.request_id}
    )
    if not is_whole:
        faulty.resources.callers_ledger.accept(request)

    def send() -> None:
        faulty.app.send_task(TASK_RETRIEVE, kwargs=arguments, queue=QUEUE_RETRIEVE, ignore_result=True)

    for _ in range(10):
        send()
    ended = seen_of(faulty, request)
    with unchanged(faulty, ended):
        send()
        seen(faulty, branches=["bm25"], timeout_s=20)

    is_whole_with(ended, "fickle", {"bread": 1})
    assert deliveries(faulty, request) <= 1 + PROTOCOL.resends


@pytest.mark.parametrize("branch", ["no_json", "another_shape"])
def test_a_branch_result_that_nobody_can_read_costs_only_its_branch(
    faulty: RunningPipeline, branch: str
) -> None:
    answer = seen(faulty, branches=["bm25", branch], timeout_s=20)

    assert (answer.status, answer.missing) == ("degraded", [(f"search.{branch}", "invalid_answer")])
    assert "unreadable result" in answer.answer.degraded[0].detail
    assert answer.documents == ["error"]
    reasons = [(row.branch, row.reason) for row in answer.audit.branches if row.reason]
    assert reasons == [(branch, "invalid_answer")]


def test_the_known_fields_of_a_branch_result_of_a_later_version_are_read(faulty: RunningPipeline) -> None:
    answer = seen(faulty, branches=["bm25", "next_version"], **OPTIONS)
    is_whole_with(answer, "next_version", {"bread": 1})


def test_a_branch_whose_task_is_new_answers_once_a_worker_knows_the_task(faulty: RunningPipeline) -> None:
    with unjoined(faulty, UNKNOWN) as request:
        until(lambda: has_status(faulty, request, UNKNOWN, b"failed"))
        known_by_now = Template(faulty.app, TASK_SEARCH.format(kind="fickle"), QUEUE).render(
            part_id(request.request_id, UNKNOWN),
            {"request_id": request.request_id, "branch": UNKNOWN},
            root_id=request.request_id,
            group_id=request.request_id,
            chord={"task": TASK_FUSE},
        )
        faulty.redis.lpush(QUEUE, known_by_now)
        until(lambda: has_status(faulty, request, UNKNOWN, b"ok"))

    is_whole_with(seen_of(faulty, request), UNKNOWN, {"bread": 1})
