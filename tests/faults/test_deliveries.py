"""A message that comes twice, too early or too late, or is unreadable, makes no difference to a user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from chorale_client import Request, make_request
from chorale_client.keys import entry_key
from chorale_client.message_template import Template
from chorale_client.words import QUEUE_RETRIEVE, TASK_FUSE, TASK_RETRIEVE, TASK_SEARCH

from models.plan import BranchPlan, Plan
from tasks.celery_surface.result_backend import part_id
from tasks.request.retrieve import submit
from tests.support.faults.observers import Seen, seen, seen_of, unchanged
from tests.support.pipelines.branch_faults import DELIVERIES, QUEUE, UNKNOWN
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.waiting import until

BM25 = "chorale.bm25"


@contextmanager
def held_open(pipeline: RunningPipeline, branch: str) -> Iterator[Request]:
    """Yields a request of bm25 and `branch` that cannot be joined, because the worker of bm25 is paused."""
    pipeline.pause(BM25)
    try:
        request = make_request(
            "ERR-4711",
            branches=["bm25", branch],
            cache="bypass",
            timeout_s=20,
            include=["ids", "explanation"],
        )
        submit(pipeline.resources, pipeline.app.fanout, request)
        yield request
    finally:
        pipeline.resume(BM25)


def deliver(pipeline: RunningPipeline, request: Request, branch: str, *, times: int = 1) -> None:
    """Delivers the part's message once more, as it was published."""
    message = pipeline.app.fanout._part_message(request.request_id, planned(pipeline, request, branch))
    pipeline.redis.lpush(QUEUE, *[message] * times)


def planned(pipeline: RunningPipeline, request: Request, branch: str) -> BranchPlan:
    plan = pipeline.redis.hget(entry_key(request.request_id), "plan")
    assert isinstance(plan, bytes)
    return next(one for one in Plan.model_validate_json(plan).branches if one.name == branch)


def deliveries(pipeline: RunningPipeline, request: Request) -> int:
    return int(pipeline.redis.get(DELIVERIES + request.request_id) or 0)


def status_of(pipeline: RunningPipeline, request: Request, branch: str) -> bytes | None:
    found = pipeline.redis.hget(entry_key(request.request_id), f"status:{branch}")
    assert found is None or isinstance(found, bytes)
    return found


def found_in(found: Seen, branch: str) -> dict[str, int]:
    """Returns the documents that this branch found, with their ranks."""
    return {hit.document_id: hit.branches[branch].rank for hit in found.answer.hits if branch in hit.branches}


def is_whole_with(found: Seen, branch: str, documents: dict[str, int]) -> None:
    assert (found.status, found.missing) == ("complete", [])
    assert found_in(found, branch) == documents
    assert found_in(found, "bm25") == {"error": 1}
    assert sorted(row.branch for row in found.audit.branches) == sorted(["bm25", branch])


@pytest.mark.parametrize("times", [1, 9])
def test_a_part_delivered_again_with_different_content_counts_once(
    faulty: RunningPipeline, times: int
) -> None:
    with held_open(faulty, "fickle") as request:
        until(lambda: status_of(faulty, request, "fickle") == b"ok")
        deliver(faulty, request, "fickle", times=times)
        sees_a_message_behind_it(faulty)
        assert deliveries(faulty, request) == 1 + times
    found = seen_of(faulty, request)

    is_whole_with(found, "fickle", {"bread": 1})


def sees_a_message_behind_it(pipeline: RunningPipeline) -> None:
    """Checks that the faulty branches' worker has emptied its queue: it answers another request."""
    probe = pipeline.client().retrieve("bread", branches=["fickle"], cache="bypass", timeout_s=20)
    assert probe.status == "complete"


def test_a_part_that_comes_after_the_end_changes_nothing(faulty: RunningPipeline) -> None:
    with held_open(faulty, "fickle") as request:
        message = faulty.app.fanout._part_message(request.request_id, planned(faulty, request, "fickle"))
    found = seen_of(faulty, request)

    with unchanged(faulty, found):
        faulty.redis.lpush(QUEUE, *[message] * 10)
        sees_a_message_behind_it(faulty)

    is_whole_with(found, "fickle", {"bread": 1})
    assert deliveries(faulty, request) == 11


def test_a_callback_delivered_ten_times_after_the_end_changes_nothing(faulty: RunningPipeline) -> None:
    found = seen(faulty, branches=["bm25", "fickle"], timeout_s=20, include=["ids", "explanation"])

    with unchanged(faulty, found):
        for _ in range(10):
            faulty.app.fanout.send_fuse(found.request.request_id)
        seen(faulty, branches=["bm25"], timeout_s=20)

    is_whole_with(found, "fickle", {"bread": 1})


@pytest.mark.parametrize("is_whole", [False, True], ids=["of an id", "with the whole request"])
def test_a_request_that_is_sent_ten_times_is_planned_and_answered_once(
    faulty: RunningPipeline, is_whole: bool
) -> None:
    request = make_request(
        "ERR-4711", branches=["bm25", "fickle"], cache="bypass", timeout_s=20, include=["ids", "explanation"]
    )
    given = {"request": request.model_dump(mode="json")} if is_whole else {"request_id": request.request_id}
    if not is_whole:
        faulty.resources.callers_ledger.accept(request)
    for _ in range(10):
        faulty.app.send_task(TASK_RETRIEVE, kwargs=given, queue=QUEUE_RETRIEVE, ignore_result=True)
    found = seen_of(faulty, request)
    with unchanged(faulty, found):
        faulty.app.send_task(TASK_RETRIEVE, kwargs=given, queue=QUEUE_RETRIEVE, ignore_result=True)
        seen(faulty, branches=["bm25"], timeout_s=20)

    is_whole_with(found, "fickle", {"bread": 1})
    assert deliveries(faulty, request) == 1


@pytest.mark.parametrize(
    ("branch", "detail"),
    [
        pytest.param("no_json", "unreadable envelope", id="no JSON"),
        pytest.param("of_another_shape", "unreadable envelope", id="of another shape"),
    ],
)
def test_an_envelope_that_nobody_can_read_costs_only_its_branch(
    faulty: RunningPipeline, branch: str, detail: str
) -> None:
    found = seen(faulty, branches=["bm25", branch], timeout_s=20)

    assert (found.status, found.missing) == ("degraded", [(f"search.{branch}", "invalid_answer")])
    assert detail in found.answer.degraded[0].detail
    assert found.documents == ["error"]
    assert [(row.branch, row.reason) for row in found.audit.branches if row.reason] == [
        (branch, "invalid_answer")
    ]


def test_the_known_fields_of_an_envelope_of_a_later_version_are_read(faulty: RunningPipeline) -> None:
    found = seen(faulty, branches=["bm25", "of_next_year"], timeout_s=20, include=["ids", "explanation"])
    is_whole_with(found, "of_next_year", {"bread": 1})


def test_a_branch_whose_task_is_new_answers_once_a_worker_knows_the_task(faulty: RunningPipeline) -> None:
    with held_open(faulty, UNKNOWN) as request:
        until(lambda: status_of(faulty, request, UNKNOWN) == b"failed")
        known_by_now = Template(faulty.app, TASK_SEARCH.format(kind="fickle"), QUEUE).render(
            part_id(request.request_id, UNKNOWN),
            {"request_id": request.request_id, "branch": UNKNOWN},
            root_id=request.request_id,
            group_id=request.request_id,
            chord={"task": TASK_FUSE},
        )
        faulty.redis.lpush(QUEUE, known_by_now)
        until(lambda: status_of(faulty, request, UNKNOWN) == b"ok")
    found = seen_of(faulty, request)

    is_whole_with(found, UNKNOWN, {"bread": 1})
