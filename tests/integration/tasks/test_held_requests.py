"""A worker that serves several branches takes all parts of a request, and ends it without reports: the end brings the branch results.

A worker that serves the fusion, too, ends the requests that it completes, without a message.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from celery.result import AsyncResult, GroupResult
from chorale_client import Answer
from chorale_client.keys import OUTBOX, READY, entry_key
from chorale_client.wire_names import QUEUE_FUSION
from pydantic_core import from_json, to_json
from redis.exceptions import ConnectionError, ReadOnlyError, RedisError

from ledger.redis import RedisLedger
from models.plan import Plan
from records.audit.outbox import Ended, parse
from tasks.celery_internals import result_backend
from tasks.celery_internals.batch_consumer import BatchConsumer
from tasks.request.batch import make_intake
from tests.support.faults.serving import serving
from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.waiting import until

BRANCHES = ("bm25", "vector", "hyde")
BRANCH_QUEUES = [f"chorale.{branch}" for branch in BRANCHES]
SERVED = [*BRANCH_QUEUES, QUEUE_FUSION]


@pytest.fixture
def intake(here: OneProcess) -> Iterator[BatchConsumer]:
    here.redis.delete(*SERVED, READY)
    yield make_intake(here.app, SERVED)
    here.redis.delete(*SERVED, READY)


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The branches of the reports that were made."""
    branches = list[str]()

    def noting(report: Callable[..., Any]) -> Callable[..., Any]:
        def noted(ledger: RedisLedger, reports: Sequence[Any]) -> Any:
            branches.extend(result.branch for _, result, *_ in reports)
            return report(ledger, reports)

        return noted

    for name in ("report_and_join", "report_all"):
        monkeypatch.setattr(RedisLedger, name, noting(getattr(RedisLedger, name)))
    return branches


def refused(*_: object) -> None:
    pytest.fail("the message goes Celery's way")


def submitted(here: OneProcess, **options: Any) -> str:
    return here.submit("who pays for repairs?", cache="bypass", **options)


def answered(here: OneProcess, intake: BatchConsumer, request_id: str) -> Answer:
    intake.take_waiting(refused)
    return here.answer(request_id)


def last_ended(here: OneProcess) -> Ended:
    entries: Any = here.redis.xrevrange(OUTBOX, count=1)
    [(_, fields)] = entries
    return parse(fields)


def test_a_request_in_one_hand_is_not_reported_and_leaves_what_a_reported_one_leaves(
    here: OneProcess, intake: BatchConsumer, reported: list[str]
) -> None:
    request_id = submitted(here)
    here.redis.hset(entry_key(request_id), "again:bm25", 1)
    by_reports, first = answered(here, intake, request_id), last_ended(here)
    assert sorted(reported) == sorted(BRANCHES), "a second message was sent: the join knows of it"
    reported.clear()

    unreported = answered(here, intake, submitted(here))
    ended = last_ended(here)

    assert reported == []
    assert (unreported.status, unreported.hits) == (by_reports.status, by_reports.hits)
    assert [line.stage for line in unreported.stages] == [line.stage for line in by_reports.stages]
    assert all(line.start_ms is not None for line in unreported.stages if line.stage.startswith("search."))
    rankings, expected = (
        {branch: result["rankings"] for branch, result in each.branch_results.items()}
        for each in (ended, first)
    )
    assert rankings == expected
    group = GroupResult.restore(unreported.request_id, backend=here.app.backend, app=here.app)
    assert [part.state for part in group] == ["SUCCESS"] * 3
    assert AsyncResult(f"{unreported.request_id}:bm25", app=here.app).result == {"status": "ok"}
    assert here.redis.exists(entry_key(unreported.request_id)) == 0


def test_a_request_with_a_failed_branch_is_reported(failing: OneProcess, reported: list[str]) -> None:
    served = ["chorale.bm25", "chorale.raises", QUEUE_FUSION]
    request_id = failing.submit("bread", cache="bypass", branches=["bm25", "raises"])
    failing.work(*served)
    assert failing.answer(request_id).status == "degraded"
    assert sorted(reported) == ["bm25", "raises"]


def test_parts_of_a_request_that_several_workers_have_are_reported(
    here: OneProcess, intake: BatchConsumer, reported: list[str]
) -> None:
    request_id = submitted(here)
    others: Any = here.redis.rpop("chorale.hyde")
    intake.take_waiting(refused)
    assert sorted(reported) == ["bm25", "vector"]
    here.redis.lpush("chorale.hyde", others)
    assert answered(here, intake, request_id).status == "complete"


@pytest.mark.parametrize("error", [ConnectionError("gone"), SystemExit("a package's reranker")])
def test_a_request_whose_end_fails_is_reported_and_fused_by_the_next_message(
    here: OneProcess,
    intake: BatchConsumer,
    reported: list[str],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
) -> None:
    finish, errors = RedisLedger.finish_all, [error]

    def failing(ledger: RedisLedger, *args: Any, **named: Any) -> Any:
        if errors:
            raise errors.pop()
        return finish(ledger, *args, **named)

    monkeypatch.setattr(RedisLedger, "finish_all", failing)
    request_id = submitted(here)
    intake.take_waiting(refused)
    assert sorted(reported[: len(BRANCHES)]) == sorted(BRANCHES)
    answer = answered(here, intake, request_id)
    assert (answer.status, answer.degraded) == ("complete", ())


@pytest.mark.parametrize("error", [ConnectionError("the primary"), ReadOnlyError("it is a replica now")])
def test_parts_whose_reports_a_failover_outlasts_are_searched_again(
    here: OneProcess, intake: BatchConsumer, monkeypatch: pytest.MonkeyPatch, error: RedisError
) -> None:
    away = [error]

    def failing(call: Callable[..., Any]) -> Callable[..., Any]:
        def made(*args: Any, **named: Any) -> Any:
            if away:
                raise away[0]
            return call(*args, **named)

        return made

    monkeypatch.setattr(result_backend, "REPORT_FOR_S", 0.1)
    for name in ("finish_all", "report_and_join", "report_all"):
        monkeypatch.setattr(RedisLedger, name, failing(getattr(RedisLedger, name)))
    request_id = submitted(here)
    intake.take_waiting(refused)
    away.clear()
    answer = answered(here, intake, request_id)
    assert (answer.status, answer.degraded) == ("complete", ())


def test_a_request_that_was_cancelled_meanwhile_stays_cancelled(
    here: OneProcess, intake: BatchConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish, request_id = RedisLedger.finish_all, submitted(here)

    def cancelled_before(ledger: RedisLedger, *args: Any, **named: Any) -> Any:
        here.client().cancel(request_id)
        return finish(ledger, *args, **named)

    monkeypatch.setattr(RedisLedger, "finish_all", cancelled_before)
    assert answered(here, intake, request_id).status == "cancelled"
    assert AsyncResult(f"{request_id}:bm25", app=here.app).state == "FAILURE"


@pytest.mark.parametrize("is_fused_here", [True, False])
def test_the_last_report_of_a_request_ends_it_where_the_worker_serves_the_fusion(
    here: OneProcess, is_fused_here: bool
) -> None:
    ids = [here.submit(text, branches=["bm25"], cache="bypass") for text in ("bread", "repairs")]
    first: Any = here.redis.rpop("chorale.bm25")
    make_intake(here.app, ["chorale.bm25", QUEUE_FUSION] if is_fused_here else ["chorale.bm25"]).take(
        from_json(first), "chorale.bm25", refused
    )
    ended = [here.resources.callers_ledger.result(request_id) is not None for request_id in ids]
    assert ended == [is_fused_here] * 2
    assert here.redis.llen(QUEUE_FUSION) == (0 if is_fused_here else 2)
    here.work()


def test_a_worker_that_answers_all_branches_and_fuses_them_reads_the_plan_once(
    here: OneProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, plans = Plan.model_validate_json, list[bytes]()

    def noted(plan: bytes) -> Plan:
        plans.append(plan)
        return read(plan)

    monkeypatch.setattr(Plan, "model_validate_json", noted)
    answer = here.ask("who pays for repairs?", cache="bypass")
    assert (answer.status, len(plans)) == ("complete", 1)


def test_a_token_stands_for_each_chord_and_goes_with_the_last_part(
    here: OneProcess, intake: BatchConsumer
) -> None:
    ids = [here.submit(f"bread {number}", cache="bypass") for number in range(3)]
    assert here.redis.llen(READY) == 3
    here.redis.rpop(READY)
    intake.take_waiting(refused)
    assert [here.answer(request_id).status for request_id in ids] == ["complete"] * 3
    assert here.redis.exists(READY, *SERVED) == 0


def test_parts_that_one_worker_leaves_wake_the_next(here: OneProcess, intake: BatchConsumer) -> None:
    ids = [here.submit(f"repairs {number}", cache="bypass") for number in range(10)]
    here.redis.delete(READY)
    intake.take_waiting(refused)
    assert [here.redis.llen(queue) for queue in (READY, *BRANCH_QUEUES)] == [1, 2, 2, 2], "eight at once"
    intake.take_waiting(refused)
    assert [here.answer(request_id).status for request_id in ids] == ["complete"] * 10


def test_a_part_that_was_sent_again_comes_alone(here: OneProcess, intake: BatchConsumer) -> None:
    first, second = (here.submit(text, cache="bypass") for text in ("bread", "deposit"))
    here.redis.hset(f"chorale:request:{second}", "resent:bm25", 1)
    batches: list[list[str]] = []
    run = intake.run

    def noted(messages: Any, joined: Any, joined_s: float) -> None:
        batches.append([message.task_id for message in messages])
        run(messages, joined, joined_s)

    object.__setattr__(intake, "run", noted)
    while here.redis.rpop(READY):
        intake.take_waiting(refused)
    assert [f"{second}:bm25"] in batches
    assert [here.answer(request_id).status for request_id in (first, second)] == ["complete"] * 2


def test_a_message_for_celery_goes_its_way_among_others(here: OneProcess, intake: BatchConsumer) -> None:
    stranger = {"headers": {"task": "their.task", "id": "1"}, "body": ""}
    here.redis.lpush(BRANCH_QUEUES[0], to_json(stranger))
    request_id = here.submit("bread", cache="bypass")
    delivered: list[Any] = []
    while here.redis.rpop(READY):
        intake.take_waiting(lambda payload, queue: delivered.append((payload, queue)))
    assert delivered == [(stranger, BRANCH_QUEUES[0])]
    assert here.answer(request_id).status == "complete"


@pytest.mark.parametrize(
    ("served", "waits_on"),
    [
        (SERVED, [READY, QUEUE_FUSION]),
        (BRANCH_QUEUES, [READY]),
        # The tokens are those of workers that serve every branch.
        (BRANCH_QUEUES[:2], BRANCH_QUEUES[:2]),
        (BRANCH_QUEUES[:1], BRANCH_QUEUES[:1]),
        ([*BRANCH_QUEUES[:1], QUEUE_FUSION], [*BRANCH_QUEUES[:1], QUEUE_FUSION]),
    ],
)
def test_a_worker_of_several_branches_waits_for_tokens(
    here: OneProcess, served: list[str], waits_on: list[str]
) -> None:
    assert make_intake(here.app, served).waits_on(served) == waits_on
    intake = make_intake(here.app, served)
    object.__setattr__(intake, "has_tokens", False)
    assert intake.waits_on(served) == served, "a plain chord has no tokens"


REPLICAS = ("replica.1", "replica.2")
NOTED = "test:workers"

NOTES_WORKERS = f"""
import os
from celery import signals
from redis import Redis

client = Redis.from_url(os.environ["CHORALE_REDIS_URL"])
signals.task_prerun.connect(lambda task_id, **_: client.hset("{NOTED}", task_id, os.getpid()), weak=False)
"""


@contextmanager
def two_replicas() -> Iterator[RunningPipeline]:
    with serving(["chorale.retrieve"], preload=NOTES_WORKERS) as running:
        for replica in REPLICAS:
            running.start(replica, queue=",".join(SERVED))
        running.wait_ready()
        yield running


@pytest.mark.slow
def test_one_of_two_idle_replicas_takes_all_parts_of_a_request() -> None:
    with two_replicas() as running:
        for number in range(20):
            assert running.client().retrieve(f"bread {number}", cache="bypass").status == "complete"
        workers: dict[str, set[str]] = defaultdict(set)
        noted: Any = running.redis.hgetall(NOTED)
        for task_id, pid in noted.items():
            request_id, _, branch = task_id.decode().partition(":")
            if branch:
                workers[request_id].add(pid)
        assert [len(pids) for pids in workers.values()] == [1] * 20

        for replica in REPLICAS:
            running.kill(replica)
        handle = running.client().submit("repairs", cache="bypass", timeout_s=30)
        until(lambda: running.redis.delete(READY) == 1)
        running.start(REPLICAS[0], queue=",".join(SERVED))
        assert handle.answer().status == "complete", "a part without a token waits a second at most"
