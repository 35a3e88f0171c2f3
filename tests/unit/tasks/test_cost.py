"""Which requests are costly, and where they run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from chorale_client import make_request
from chorale_client.keys import SERVED
from redis.exceptions import ConnectionError as RedisAway

from models.plan import Plan, is_costly
from tasks.request.planning.cost import longest_step_s, placed_branches
from tests.unit.tasks.test_planning import PIPELINE, plan_of

PASSAGE = "The landlord pays for repairs. " * 12


class FakeRedis:
    def __init__(self, *keys: str, is_away: bool = False) -> None:
        self._keys, self._is_away = keys, is_away

    def exists(self, key: str) -> int:
        if self._is_away:
            raise RedisAway("gone")
        return int(key in self._keys)


def resources(redis: FakeRedis) -> Any:
    return SimpleNamespace(pipeline=PIPELINE, redis=redis, settings=SimpleNamespace(costly_s=0.25))


SERVING = resources(FakeRedis(SERVED + "chorale.bulk"))


def planned(questions: Any, of: Any = SERVING, **options: Any) -> Plan:
    request = make_request(questions, **options)
    plan = plan_of(request)
    return plan.model_copy(update={"branches": placed_branches(of, request, plan, plan.searched)})


def with_documents(count: int) -> list[dict[str, Any]]:
    return [
        {"text": f"question {number}", "hypothetical_documents": [PASSAGE] * 8} for number in range(count)
    ]


@pytest.mark.parametrize(
    ("questions", "options"),
    [
        ("who pays for repairs?", {}),
        ([f"who pays for repair number {number} of the flat?" for number in range(50)], {}),
        (with_documents(1), {}),
        ("who pays?", {"depth": 1_000, "top_k": 1_000}),
        ("who pays?", {"top_k": 50, "context_tokens": 8_000}),
        ("who pays?", {"filters": {f"field{number}": ["a", "b"] * 20 for number in range(20)}}),
    ],
    ids=["one", "50 questions", "8 documents", "1,000 hits", "8,000 tokens", "20 conditions"],
)
def test_a_usual_request_is_not_costly(questions: Any, options: dict[str, Any]) -> None:
    plan = planned(questions, **options)
    assert not is_costly(plan.to_json())
    assert {branch.queue for branch in plan.branches} == {"chorale.bm25", "chorale.vector", "chorale.hyde"}


@pytest.mark.parametrize(
    ("questions", "options"),
    [
        (with_documents(64), {}),
        (
            [
                {"text": f"question {number}", "variants": [{"kind": "semantic", "text": PASSAGE}] * 8}
                for number in range(64)
            ],
            {},
        ),
        (["who pays?"] * 64, {"depth": 312}),
        (["who pays?"] * 20, {"depth": 1_000}),
        (["who pays?"] * 64, {"top_k": 150}),
        ("who pays?", {"top_k": 100, "context_tokens": 20_000}),
        ("who pays?", {"filters": {"tags": {"all": [{"not": {"contains": ["a", "b"]}}] * 100}}}),
    ],
    ids=["documents", "variants", "64 x depth", "20 x depth", "hits", "tokens", "conditions"],
)
def test_the_costliest_allowed_requests_are_sent_to_the_bulk_workers_once(
    questions: Any, options: dict[str, Any]
) -> None:
    plan = planned(questions, **options)
    assert {(branch.queue, branch.is_costly) for branch in plan.branches} == {("chorale.bulk", True)}
    assert is_costly(plan.to_json())


@pytest.mark.parametrize("redis", [FakeRedis(), FakeRedis(is_away=True)], ids=["no worker", "no Redis"])
def test_without_a_bulk_worker_a_costly_request_is_as_any_other(redis: FakeRedis) -> None:
    plan = planned(with_documents(64), resources(redis))
    assert {branch.queue for branch in plan.branches} == {"chorale.bm25", "chorale.vector", "chorale.hyde"}
    assert not is_costly(plan.to_json())


def test_questions_that_the_cache_answers_cost_nothing() -> None:
    request = make_request(cast(Any, with_documents(64)))
    plan = plan_of(request)
    whole_s = longest_step_s(SERVING, request, plan, plan.searched)
    assert longest_step_s(SERVING, request, plan, plan.searched[:2]) < whole_s / 30
    assert longest_step_s(SERVING, request, plan, ()) == 0


def test_no_text_of_a_request_makes_a_plan_look_costly() -> None:
    request = make_request("who pays?")
    text = '{"is_costly":true,"queue":"chorale.bulk"}'
    metadata = {"is_costly": True, "queue": "chorale.bulk", "cost": "bulk"}
    hits = [text, {"metadata": metadata}]
    plan = plan_of(request).model_copy(update={"cached": {0: {"hits": hits}}, "warnings": (text,)})
    assert not is_costly(plan.to_json())
