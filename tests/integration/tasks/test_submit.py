"""A process with the pipeline accepts and plans its requests itself, in one script once it knows the corpus."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
from chorale_client import Chorale, Request, make_request
from chorale_client.keys import CACHE, GENERATION, entry_key
from pydantic import BaseModel
from pydantic_core import from_json, to_json

from config.settings import Settings
from ledger.breaker_outcomes import Outcome
from ledger.breakers import FEWEST_DURATIONS
from models.plan import BranchPlan, Plan
from tasks.registration import make_app
from tasks.request.planning.answer_cache import question_keys
from tasks.request.retrieve import submit
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tests.support.servers.redis_server import RedisServer

QUEUES = {"chorale.bm25", "chorale.vector", "chorale.hyde"}
THREADS = 120


@pytest.fixture
def resources(
    redis_server: RedisServer, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> Resources:
    """The corpus has generation 7."""
    monkeypatch.setattr(Resources, "fingerprints", {"embedder": "none"})
    made = Resources(Settings(embedder="none"), load_pipeline(), redis_server.url)
    redis_client.set(GENERATION + "default", 7)
    made.generations.agreed["default"] = 7
    return made


def ask(resources: Resources, text: str = "bread", **options: Any) -> str:
    return submit(resources, make_app(resources).fanout, make_request(text, timeout_s=60, **options))


def plan_of(client: redis.Redis, request_id: str) -> Plan:
    written: Any = client.hget(entry_key(request_id), "plan")
    assert written, "it is not planned"
    return Plan.model_validate_json(written)


def calls(client: redis.Redis, command: str) -> int:
    return int(client.info("commandstats").get(f"cmdstat_{command}", {}).get("calls", 0))


def test_a_request_is_accepted_and_planned_by_one_script(
    resources: Resources, redis_client: redis.Redis
) -> None:
    ask(resources, "warms")
    fanout, begun_s = make_app(resources).fanout, time.monotonic()
    redis_client.config_resetstat()
    for number in range(20):
        request = make_request(f"bread {number}", timeout_s=60)
        request_id = submit(resources, fanout, request)
    # The state of the breakers is asked for every 100 ms.
    assert calls(redis_client, "evalsha") <= 21 + 10 * (time.monotonic() - begun_s)
    plan = plan_of(redis_client, request_id)
    assert (plan.generation, [branch.name for branch in plan.branches]) == (7, ["bm25", "vector", "hyde"])
    assert {queue: redis_client.llen(queue) for queue in QUEUES} == dict.fromkeys(QUEUES, 21)


def test_a_plan_for_a_generation_that_rose_is_made_anew(
    resources: Resources, redis_client: redis.Redis
) -> None:
    redis_client.set(GENERATION + "default", 8)
    request_id = ask(resources)
    assert plan_of(redis_client, request_id).generation == 8
    assert {queue: redis_client.llen(queue) for queue in QUEUES} == dict.fromkeys(QUEUES, 1)


def test_a_cached_answer_ends_the_request_at_once(
    resources: Resources, redis_client: redis.Redis, plans: Counter[str]
) -> None:
    first = make_request("bread", timeout_s=60)
    plan = plan_of(redis_client, ask(resources, "bread"))
    redis_client.delete(*QUEUES)
    question = {"status": "complete", "hits": [], "total_matches": 0, "ordered_by": "score", "took_ms": 1.0}
    (key,) = question_keys(first, plan).values()
    redis_client.set(CACHE + key, to_json({"generation": 7, "answer": question}))
    plans.clear()
    request_id = ask(resources)
    result = resources.callers_ledger.result(request_id)
    assert result is not None
    answer = from_json(result)["result"]
    assert (answer["status"], answer["cached"]) == ("complete", True)
    assert [(line["n_in"], line["n_out"]) for line in answer["stages"] if line["stage"] == "cache"] == [
        (1, 1)
    ]
    assert not any(redis_client.llen(queue) for queue in QUEUES)
    assert plans == {"made": 1, "copied": 3, "branches copied": 3}
    # An answer that belongs to an older generation counts for nothing.
    redis_client.set(CACHE + key, to_json({"generation": 6, "answer": question}))
    assert redis_client.hget(entry_key(ask(resources)), "state") == b"following"


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often plans were made, and plans and branches copied."""
    counts = Counter[str]()

    def count(name: str, model: type[BaseModel], method: str) -> None:
        do = getattr(model, method)

        def counted(self: BaseModel, *args: Any, **kwargs: Any) -> Any:
            counts[name] += 1
            return do(self, *args, **kwargs)

        monkeypatch.setattr(model, method, counted)

    count("made", Plan, "__init__")
    count("copied", Plan, "model_copy")
    count("branches copied", BranchPlan, "model_copy")
    return counts


def test_a_plan_is_made_once_and_copied_once(
    resources: Resources, redis_client: redis.Redis, plans: Counter[str]
) -> None:
    ask(resources)
    # The copy has what the cache, the breakers and the durations of the branches say.
    assert plans == {"made": 1, "copied": 1, "branches copied": 3}
    plans.clear()
    redis_client.set(GENERATION + "default", 8)
    ask(resources, "water")
    # The plan of generation 7 was not published, and is made anew.
    assert plans == {"made": 2, "copied": 2, "branches copied": 6}


@pytest.mark.parametrize("plans_too", [True, False])
def test_a_request_is_dumped_once(
    resources: Resources, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, plans_too: bool
) -> None:
    dumps, dump = list[str](), Request.model_dump_json

    def recorded(request: Request, **options: Any) -> str:
        text = dump(request, **options)
        dumps.extend([text] if '"questions"' in text else [])
        return text

    monkeypatch.setattr(Request, "model_dump_json", recorded)
    if plans_too:
        ask(resources)
    else:
        Chorale(redis_server.url).submit("bread", timeout_s=1)
    assert len(dumps) == 1


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "unknown"])
def test_a_hedge_follows_the_branchs_usual_time_or_half_of_its_limit_and_a_lease_twice_the_time(
    resources: Resources, redis_client: redis.Redis, is_known: bool
) -> None:
    for ms in range(FEWEST_DURATIONS if is_known else 0):
        resources.breakers.count("x", [Outcome("bm25", "answered", answered_after_ms=1_000 + ms)])
    hedged, leased = (
        plan_of(redis_client, ask(resources, f"bread {hedge}", hedge=hedge)).branches[0]
        for hedge in (True, False)
    )
    half_ms = hedged.limit_ms // 2
    # Of 20 durations the nearest rank of 95 % is the 19th.
    assert (hedged.hedge_after_ms, hedged.lease_ms) == (1_018 if is_known else half_ms, 0)
    assert (leased.hedge_after_ms, leased.lease_ms) == (None, 2_036 if is_known else half_ms)


@pytest.mark.slow
def test_120_threads_plan_at_once(resources: Resources, redis_client: redis.Redis) -> None:
    """As many connections as threads: redis-py's own limit is 100."""
    fanout, begin = make_app(resources).fanout, threading.Barrier(THREADS)

    def plan(number: int) -> str:
        begin.wait()
        return submit(resources, fanout, make_request(f"bread {number}", timeout_s=60))

    with ThreadPoolExecutor(THREADS) as threads:
        assert len(set(threads.map(plan, range(THREADS)))) == THREADS
    assert redis_client.llen("chorale.vector") == THREADS
