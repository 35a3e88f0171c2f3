"""A worker that has all parts of a request ends it without reports: the end brings the branch results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from celery.result import AsyncResult, GroupResult
from chorale_client import Answer
from chorale_client.keys import OUTBOX, READY, entry_key
from chorale_client.wire_names import QUEUE_FUSION
from redis.exceptions import ConnectionError, ReadOnlyError, RedisError

from ledger.redis import RedisLedger
from records.audit.outbox import Ended, parse
from tasks.celery_internals import result_backend
from tasks.celery_internals.batch_consumer import BatchConsumer
from tasks.request.batch import make_intake
from tests.support.pipelines.one_process import OneProcess

BRANCHES = ("bm25", "vector", "hyde")
SERVED = [*(f"chorale.{branch}" for branch in BRANCHES), QUEUE_FUSION]


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

    held = answered(here, intake, submitted(here))
    ended = last_ended(here)

    assert reported == []
    assert (held.status, held.hits) == (by_reports.status, by_reports.hits)
    assert [line.stage for line in held.stages] == [line.stage for line in by_reports.stages]
    assert all(line.start_ms is not None for line in held.stages if line.stage.startswith("search."))
    rankings, expected = (
        {branch: result["rankings"] for branch, result in each.branch_results.items()}
        for each in (ended, first)
    )
    assert rankings == expected
    group = GroupResult.restore(held.request_id, backend=here.app.backend, app=here.app)
    assert [part.state for part in group] == ["SUCCESS"] * 3
    assert AsyncResult(f"{held.request_id}:bm25", app=here.app).result == {"status": "ok"}
    assert here.redis.exists(entry_key(held.request_id)) == 0


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

    def failing(ledger: RedisLedger, *given: Any, **named: Any) -> Any:
        if errors:
            raise errors.pop()
        return finish(ledger, *given, **named)

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
        def made(*given: Any, **named: Any) -> Any:
            if away:
                raise away[0]
            return call(*given, **named)

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

    def cancelled_before(ledger: RedisLedger, *given: Any, **named: Any) -> Any:
        here.client().cancel(request_id)
        return finish(ledger, *given, **named)

    monkeypatch.setattr(RedisLedger, "finish_all", cancelled_before)
    assert answered(here, intake, request_id).status == "cancelled"
    assert AsyncResult(f"{request_id}:bm25", app=here.app).state == "FAILURE"
